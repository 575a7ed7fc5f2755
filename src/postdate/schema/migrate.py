"""The schema: numbered migrations, applied once each, and functions, applied when they changed.

A migration is a file `migrations/NNNN_name.sql`, or a folder of that name whose files are read in
the order of their names. A function has one text, in `functions/<noun>.sql`: the whole file is
applied again when it differs from what the database remembers. One upgrade is one transaction under
one lock, so that nodes that start together neither race nor see half of it.
"""

import hashlib
import re
from collections.abc import Callable
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from postdate.core.log import Log
from postdate.core.setting.table import QUARANTINE
from postdate.database.connection.database import (
    CLIENT,
    CONNECT_SECONDS,
    OWNER,
    READER,
    SCHEMA,
    WRITER,
    Connection,
)
from postdate.database.connection.error import DatabaseError, PermissionDeniedError
from postdate.database.connection.session import DatabaseSession, connect_alone
from postdate.database.shard import shard
from postdate.schema import client_rules
from postdate.schema.origin import describe_origin
from postdate.words.error import NotYetError, StartError

log = Log()
LOCK: Final = f"LOCK TABLE {SCHEMA}.migration IN SHARE ROW EXCLUSIVE MODE"
"""One migrator at a time: a lock that only the owner can take, and that no reader waits for."""

SESSION: Final = "postdate migrate"
"""The name of a migrator's session."""

MEETINGS: Final = 20
"""How often a migrator begins again because another one made the same role or schema just then."""
MET: Final = frozenset({"23505", "42710", "42P06", "42P07", "XX000"})
"""What the server says to that: it is there already, or its row was changed meanwhile."""

PARTITION_WEEKS: Final = 8
"""How many weeks of partitions are made ahead."""

FOUNDATION: Final = ("clock", "uuid", "tenant", "guard", "birthplace")
"""Functions that tables need for defaults, policies and triggers. They are applied before the
migrations, so their signatures name no table; all others are applied after them."""

_NUMBER: Final = re.compile(r"\d+")


class Migration(msgspec.Struct, frozen=True):
    """One numbered step."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Return a fingerprint of the text, so that an edited migration is noticed."""
        return _checksum(self.sql)


class FunctionFile(msgspec.Struct, frozen=True):
    """The functions of one noun."""

    noun: str
    sql: str

    @property
    def name(self) -> str:
        """Return the name that `postdate migrate` prints."""
        return f"functions/{self.noun}"

    @property
    def checksum(self) -> str:
        """Return a fingerprint of the text, so that a change is noticed."""
        return _checksum(self.sql)


class Remembered(msgspec.Struct, frozen=True):
    """What the database has of a file of functions, and the release that put it there."""

    checksum: str
    release: str


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def known() -> list[Migration]:
    """List the migrations this code knows, in order."""
    found = [
        Migration(int(target.name.split("_")[0]), target.name.removesuffix(".sql"), _text(target))
        for target in files("postdate.database").joinpath("migrations").iterdir()
        if target.name[0].isdigit()
    ]
    found.sort(key=lambda m: m.version)
    if [m.version for m in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 …")
    return found


def _text(target: Traversable) -> str:
    if target.is_file():
        return target.read_text()
    return "".join(file.read_text() for file in sorted(target.iterdir(), key=lambda f: f.name))


def known_functions() -> list[FunctionFile]:
    """List the files of functions, the foundation first, and the rules that Python writes."""
    found = [
        FunctionFile(file.name.removesuffix(".sql"), file.read_text())
        for file in files("postdate.database").joinpath("functions").iterdir()
        if file.name.endswith(".sql")
    ]
    found.append(FunctionFile("client_rules", client_rules.rules_sql()))
    return sorted(found, key=lambda f: (f.noun not in FOUNDATION, f.noun))


def pending(
    applied: dict[int, str], migrations: list[Migration], origin: str = "another postdate"
) -> list[Migration]:
    """Return the pending migrations; refuse a schema that this code does not know.

    `origin` says which postdate made the database, and when.
    """
    newest = migrations[-1].version
    if applied and max(applied) > newest:
        raise StartError(
            f"the database has schema version {max(applied)}, this postdate knows only {newest}: "
            "install the newer postdate, or restore a backup made before the upgrade"
        )
    for migration in migrations:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise StartError(
                f"migration {migration.name} was applied in another form than this postdate has, "
                f"by {origin}: to keep the data, start the postdate of that time (in a clone, "
                "`git log --before` that date finds its commit); to discard the data, stop the "
                f"server and delete the data directory, or drop the schema {SCHEMA}"
            )
    return [m for m in migrations if m.version not in applied]


def changed_functions(
    remembered: dict[str, Remembered], functions: list[FunctionFile], release: str
) -> list[FunctionFile]:
    """Return the function files that differ from the database's.

    An older release that starts after a newer one leaves the newer one's functions alone.
    """
    return [
        function
        for function in functions
        if (there := remembered.get(function.noun)) is None
        or (there.checksum != function.checksum and _order(there.release) <= _order(release))
    ]


def _order(release: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(release)]


async def migrate(
    dsn: str,
    *,
    dry_run: bool = False,
    citus: bool = False,
    step: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Apply what is pending as the owner and return the names; with `dry_run` only return them.

    With `citus` the tables are distributed over a Citus cluster, now and after every later call.
    `step` is called with each name.
    """
    connection = await connect_alone(dsn, CONNECT_SECONDS, {"application_name": SESSION})
    try:
        if await connection.fetchval(
            "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
        ):
            raise NotYetError(
                "the database is read-only: point POSTDATE_DATABASE_URL at the primary "
                "(several hosts may be given; the writable one is found)"
            )
        if citus:
            await shard.require_coordinator(connection)
        citus = citus or await shard.is_spread(connection)
        return await _migrate(connection, dry_run=dry_run, citus=citus, step=step)
    finally:
        await connection.close(timeout=CONNECT_SECONDS)


async def _migrate(
    connection: DatabaseSession, *, dry_run: bool, citus: bool, step: Callable[[str], None]
) -> list[str]:
    if dry_run:
        return await list_outdated(connection)
    await _prepare(connection, citus=citus)
    done = await _upgrade(connection)
    for name in done:
        step(name)
    if citus:
        done += await shard.spread(connection, step)
        await shard.ensure_locks(connection)
    async with connection.transaction():
        await connection.execute(LOCK)
        await _finish(connection)
    return done


async def _prepare(connection: DatabaseSession, *, citus: bool) -> None:
    """Create roles, schema and the table that migrators lock; begin again when two of them meet."""
    for _ in range(MEETINGS):
        try:
            await connection.execute("RESET ROLE")
            await _become_owner(connection, citus=citus)
            await connection.execute(
                f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; SET search_path = {SCHEMA}, pg_temp;"
                "CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY, "
                "name text NOT NULL, checksum text NOT NULL, "
                "applied_at timestamptz NOT NULL DEFAULT statement_timestamp());"
            )
        except DatabaseError as error:
            if error.sqlstate not in MET:
                raise
        else:
            return
    raise StartError("other processes are setting up this database: start this one again")


async def _finish(connection: DatabaseSession) -> None:
    """Make the partitions of the coming weeks, and notice a database restored from a dump."""
    await connection.execute("SELECT partition_create_ahead($1)", PARTITION_WEEKS)
    if await connection.fetchval("SELECT birthplace_moved()"):
        log.warning("restore.quarantine", reason="the database was restored from a dump")
        # What was due since the dump was taken may have run: it waits for `postdate restore`.
        await connection.execute(
            "INSERT INTO setting (tenant_id, name, value, operator, changed_by) "
            "VALUES (0, $1, to_jsonb(clock()), true, 'system') ON CONFLICT DO NOTHING",
            QUARANTINE,
        )


async def _upgrade(connection: DatabaseSession) -> list[str]:
    # One transaction for everything and its record: a kill half way leaves nothing behind, and no
    # server sees a table without the function that fits it.
    async with connection.transaction():
        await connection.execute(
            f"{LOCK}; GRANT USAGE ON SCHEMA {SCHEMA} TO {WRITER}, {READER};"
            "CREATE TABLE IF NOT EXISTS function_file (noun text PRIMARY KEY, "
            "checksum text NOT NULL, release text NOT NULL, "
            "applied_at timestamptz NOT NULL DEFAULT statement_timestamp());"
            f"GRANT SELECT ON migration, function_file TO {WRITER}, {READER}"
        )
        todo = await _pending(connection)
        changed = changed_functions(await _remembered(connection), known_functions(), release())
        # Functions name each other and tables that come after them; a test checks the bodies.
        await connection.execute("SET LOCAL check_function_bodies = off")
        for function in (f for f in changed if f.noun in FOUNDATION):
            await _apply_functions(connection, function)
        for migration in todo:
            await _apply(connection, migration)
        for function in (f for f in changed if f.noun not in FOUNDATION):
            await _apply_functions(connection, function)
        if changed:
            await connection.execute("SELECT functions_guard()")
    names = [*(m.name for m in todo), *(f.name for f in changed)]
    if names:
        log.info("migration.applied", names=names)
    return names


async def _apply(connection: DatabaseSession, migration: Migration) -> None:
    await connection.execute(migration.sql)
    await connection.execute(
        "INSERT INTO migration (version, name, checksum) VALUES ($1, $2, $3)",
        migration.version,
        migration.name,
        migration.checksum,
    )


async def _apply_functions(connection: DatabaseSession, function: FunctionFile) -> None:
    await connection.execute(function.sql)
    await connection.execute(
        "INSERT INTO function_file (noun, checksum, release) VALUES ($1, $2, $3) "
        "ON CONFLICT (noun) DO UPDATE SET checksum = excluded.checksum, "
        "release = excluded.release, applied_at = excluded.applied_at",
        function.noun,
        function.checksum,
        release(),
    )


def release() -> str:
    """Return the version of this postdate."""
    return version("postdate")


async def list_outdated(connection: DatabaseSession | Connection) -> list[str]:
    """Return the names of the migrations and functions that the database lacks."""
    todo = await _pending(connection)
    changed = changed_functions(await _remembered(connection), known_functions(), release())
    return [*(m.name for m in todo), *(f.name for f in changed)]


async def require_current(
    connection: DatabaseSession | Connection, *, altered: bool = False
) -> None:
    """Refuse a database whose schema this release cannot use; a proof names `altered_files`."""
    passed = await altered_files(connection) if altered else []
    if missing := [name for name in await list_outdated(connection) if name not in passed]:
        raise StartError(
            f"the database's schema is older than this postdate ({len(missing)} files are missing, "
            f"{missing[0]} first): run `postdate migrate`, or start `postdate serve` once"
        )


async def altered_files(connection: DatabaseSession | Connection) -> list[str]:
    """Return the files of functions that this release applied with another text than it has."""
    there = await _remembered(connection)
    applied = [(file, there[file.noun]) for file in known_functions() if file.noun in there]
    return [
        file.name
        for file, kept in applied
        if kept.release == release() and kept.checksum != file.checksum
    ]


async def _pending(connection: DatabaseSession | Connection) -> list[Migration]:
    return pending(await _applied(connection), known(), await describe_origin(connection))


async def _applied(connection: DatabaseSession | Connection) -> dict[int, str]:
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.migration") is None:
        return {}
    rows = await connection.fetch(f"SELECT version, checksum FROM {SCHEMA}.migration")  # noqa: S608
    return {row["version"]: row["checksum"] for row in rows}


async def _remembered(connection: DatabaseSession | Connection) -> dict[str, Remembered]:
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.function_file") is None:
        return {}
    rows = await connection.fetch(
        f"SELECT noun, checksum, release FROM {SCHEMA}.function_file"  # noqa: S608
    )
    return {row["noun"]: Remembered(row["checksum"], row["release"]) for row in rows}


async def is_older(connection: DatabaseSession | Connection) -> bool:
    """Return whether a release newer than this one has put functions of its own there."""
    remembered = await _remembered(connection)
    return any(_order(each.release) > _order(release()) for each in remembered.values())


async def _become_owner(connection: DatabaseSession, *, citus: bool) -> None:
    """Create the missing roles and let this login act as each; if it may not, say what to run."""
    try:
        await _ensure_roles(connection)
        if citus and not await shard.is_spread(connection):
            await shard.admit_nodes(connection)
        await connection.execute(f"SET ROLE {OWNER}")
    except PermissionDeniedError as error:
        raise StartError(
            f"this login may not set the roles up ({error}); as an administrator run: "
            f"CREATE ROLE {OWNER}; CREATE ROLE {WRITER}; CREATE ROLE {READER}; "
            f"CREATE ROLE {CLIENT}; GRANT {CLIENT} TO {OWNER} WITH ADMIN OPTION; "
            f"GRANT {OWNER}, {WRITER}, {READER} TO the login; "
            f"GRANT CREATE ON DATABASE the database TO {OWNER};"
        ) from error


async def _ensure_roles(connection: DatabaseSession) -> None:
    existing = {r["rolname"] for r in await connection.fetch("SELECT rolname FROM pg_roles")}
    for role in (OWNER, WRITER, READER, CLIENT):
        if role not in existing:
            await connection.execute(f"CREATE ROLE {role} NOLOGIN")
            await connection.execute(f"GRANT {role} TO CURRENT_USER")
    if CLIENT not in existing:
        # So that `postdate tenant bind-role` can let login roles in.
        await connection.execute(f"GRANT {CLIENT} TO {OWNER} WITH ADMIN OPTION")
    await _let_owner_create(connection)


async def _let_owner_create(connection: DatabaseSession) -> None:
    allowed = await connection.fetchval(
        "SELECT has_database_privilege($1, current_database(), 'CREATE')", OWNER
    )
    if not allowed:
        database = await connection.fetchval("SELECT quote_ident(current_database())")
        await connection.execute(f"GRANT CREATE ON DATABASE {database} TO {OWNER}")
