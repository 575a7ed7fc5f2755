"""Migrations: numbered SQL files, applied once each, in order, under one lock."""

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Final

import asyncpg
import msgspec
import structlog

from postdate.model.errors import StartError
from postdate.model.setting_table import QUARANTINE
from postdate.store.database import CONNECT_SECONDS, OWNER, READER, SCHEMA, WRITER

log = structlog.get_logger()

LOCK: Final = 0x706F7374  # "post": one migrator at a time in this database
PARTITION_WEEKS: Final = 8
"""How many weeks of partitions are made ahead."""


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Fingerprint the text, so that an edited migration is noticed."""
        return hashlib.sha256(self.sql.encode()).hexdigest()[:16]


def known() -> list[Migration]:
    """List the migrations this code knows, in order."""
    found = [
        Migration(int(file.name.split("_")[0]), file.name.removesuffix(".sql"), file.read_text())
        for file in files("postdate.store").joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    ]
    found.sort(key=lambda m: m.version)
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 …")
    return found


def pending(applied: dict[int, str], migrations: list[Migration]) -> list[Migration]:
    """Decide what is left to apply; refuse a schema this code does not understand."""
    newest = migrations[-1].version
    if applied and max(applied) > newest:
        raise StartError(
            f"the database has schema version {max(applied)}, this postdate knows only {newest}: "
            "install the newer postdate, or restore a backup made before the upgrade"
        )
    for migration in migrations:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise StartError(
                f"migration {migration.name} was applied in another form than this postdate has: "
                "install the release that applied it"
            )
    return [m for m in migrations if m.version not in applied]


async def migrate(
    dsn: str, *, dry_run: bool = False, step: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Apply what is pending as the owner and return the names; with `dry_run` only say them.

    `step` is told each one that was applied.
    """
    connection = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS)
    try:
        if await connection.fetchval(
            "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
        ):
            raise StartError(
                "the database is read-only: point POSTDATE_DATABASE_URL at the primary "
                "(several hosts may be given; the writable one is found)"
            )
        return await _migrate(connection, dry_run=dry_run, step=step)
    finally:
        await connection.close(timeout=CONNECT_SECONDS)


async def _migrate(
    connection: asyncpg.Connection, *, dry_run: bool, step: Callable[[str], None]
) -> list[str]:
    if dry_run:
        return [m.name for m in pending(await _applied(connection), known())]
    await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
    await _ensure_roles(connection)
    await connection.execute(
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; SET search_path = {SCHEMA};"
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {WRITER}, {READER};"
        "CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY, name text NOT NULL, "
        "checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT statement_timestamp());"
        f"GRANT SELECT ON migration TO {WRITER}, {READER}"
    )
    todo = pending(await _applied(connection), known())
    for migration in todo:
        await _apply(connection, migration)
        step(migration.name)
    await connection.execute("SELECT partition_ahead($1)", PARTITION_WEEKS)
    if await connection.fetchval("SELECT birthplace_moved()"):
        log.warning("restore.quarantine", reason="the database was restored from a dump")
        # What was due since the dump was taken may have run: it waits for `postdate restore`.
        await connection.execute(
            "INSERT INTO setting (tenant_id, name, value, operator, changed_by) "
            "VALUES (0, $1, to_jsonb(clock()), true, 'system') ON CONFLICT DO NOTHING",
            QUARANTINE,
        )
    return [m.name for m in todo]


async def _apply(connection: asyncpg.Connection, migration: Migration) -> None:
    # One transaction for the file and its record: a kill half way leaves nothing behind.
    async with connection.transaction():
        await connection.execute(migration.sql)
        await connection.execute(
            "INSERT INTO migration (version, name, checksum) VALUES ($1, $2, $3)",
            migration.version,
            migration.name,
            migration.checksum,
        )
    log.info("migration.applied", name=migration.name)


async def _applied(connection: asyncpg.Connection) -> dict[int, str]:
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.migration") is None:
        return {}
    rows = await connection.fetch(f"SELECT version, checksum FROM {SCHEMA}.migration")  # noqa: S608
    return {row["version"]: row["checksum"] for row in rows}


async def _ensure_roles(connection: asyncpg.Connection) -> None:
    """Make the roles that are missing and let this login act as each; say what to run if not."""
    existing = {r["rolname"] for r in await connection.fetch("SELECT rolname FROM pg_roles")}
    try:
        for role in (OWNER, WRITER, READER):
            if role not in existing:
                await connection.execute(f"CREATE ROLE {role} NOLOGIN")
                await connection.execute(f"GRANT {role} TO CURRENT_USER")
        await _let_owner_create(connection)
        await connection.execute(f"SET ROLE {OWNER}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise StartError(
            f"this login may not set the roles up ({error}); as an administrator run: "
            f"CREATE ROLE {OWNER}; CREATE ROLE {WRITER}; CREATE ROLE {READER}; "
            f"GRANT {OWNER}, {WRITER}, {READER} TO the login; "
            f"GRANT CREATE ON DATABASE the database TO {OWNER};"
        ) from error


async def _let_owner_create(connection: asyncpg.Connection) -> None:
    allowed = await connection.fetchval(
        "SELECT has_database_privilege($1, current_database(), 'CREATE')", OWNER
    )
    if not allowed:
        database = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"GRANT CREATE ON DATABASE {database} TO {OWNER}")
