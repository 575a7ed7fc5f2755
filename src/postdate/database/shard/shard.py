"""Distribute the schema over a Citus cluster, table by table; what is done already stays."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Final

import asyncpg

from postdate.database.connection.database import OWNER, READER, WRITER, Connection
from postdate.database.connection.error import PermissionDeniedError
from postdate.database.connection.query import query
from postdate.database.connection.session import DatabaseSession
from postdate.words.error import StartError

LOCAL_TABLES: Final = (
    "birthplace",
    "client_request",
    "client_schema",
    "function_file",
    "halt_lock",
    "migration",
    "named_lock",
    "setting_default",
    "wakeup_channel",
)
"""What only the coordinator asks for, and the locks, of which each node has its own."""

_DATABASE_SETTINGS: Final = {
    # Tenant and test clock are said with SET LOCAL, and every node must hear it.
    "citus.propagate_set_commands": "local",
    # One connection to a node for each of ours, one shard after the other in one order: else two
    # of our transactions could wait for each other on several nodes.
    "citus.max_adaptive_executor_pool_size": "1",
    "citus.multi_shard_modify_mode": "sequential",
    "citus.enable_deadlock_prevention": "off",
    # The triggers of ours read nothing but their own row.
    "citus.enable_unsafe_triggers": "on",
    # Functions that look something up in a small table are called beside the rows of a shard.
    "citus.allow_nested_distributed_execution": "on",
    # What is pending beyond a budget is estimated from the plans of all shards.
    "citus.explain_all_tasks": "on",
}
_NODE_SETTINGS: Final = {"search_path": "postdate", "timezone": "UTC", "jit": "off"}
_ROLE_SETTINGS: Final = {
    OWNER: _NODE_SETTINGS,
    WRITER: _NODE_SETTINGS | {"enable_seqscan": "off", "enable_bitmapscan": "off"},
    READER: _NODE_SETTINGS | {"enable_seqscan": "off"},
}
"""Of the sessions in which nodes ask each other, as far as a session of ours has them."""

_NAMED: Final = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(?:postdate\.)?(\w+)\b")
_UNFOLDED: Final = "clock"
"""Folded into a statement, its CASE would be refused there."""

ANCHOR: Final = "timer"
"""The table that all others are co-located with."""


_VERBS: Final = ("RETURN QUERY", "RETURN", "")
_OVERRIDE: Final = re.compile(r"CREATE OR REPLACE FUNCTION (\w+)\s*\(.*?\$\$(.*?)\$\$", re.DOTALL)


async def require_coordinator(connection: DatabaseSession) -> None:
    """Refuse a database that cannot be distributed from here, and say what is missing."""
    if await connection.fetchval(query("shard_extension")) is None:
        raise StartError(
            "this database has no Citus: run CREATE EXTENSION citus in the database on every node, "
            "citus_set_coordinator_host and citus_add_node on the coordinator, then again this"
        )
    if not await connection.fetchval(query("shard_is_coordinator")):
        raise StartError(
            "this is not the coordinator of the Citus cluster: point POSTDATE_DATABASE_URL at it"
        )


async def is_spread(
    connection: asyncpg.Connection | asyncpg.pool.PoolConnectionProxy | Connection,
) -> bool:
    """Return whether the schema is distributed over shards."""
    if await connection.fetchval(query("shard_extension")) is None:
        return False
    return bool(await connection.fetchval(query("shard_is_spread")))


async def admit_nodes(connection: DatabaseSession) -> None:
    """Let the roles log in, for nodes ask each other as the role that asks them.

    Rows are copied to the shards of a table with COPY, which PostgreSQL refuses to a role under
    row-level security. The policies of writer and owner admit every row anyway.
    """
    database = await connection.fetchval("SELECT quote_ident(current_database())")
    try:
        await connection.execute(f"ALTER ROLE {READER} LOGIN")
        for role in (OWNER, WRITER):
            await connection.execute(f"ALTER ROLE {role} LOGIN BYPASSRLS")
        for name, value in _DATABASE_SETTINGS.items():
            await connection.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
            await connection.execute(f"SET {name} = '{value}'")
        for role, settings in _ROLE_SETTINGS.items():
            for name, value in settings.items():
                await connection.execute(
                    f"ALTER ROLE {role} IN DATABASE {database} SET {name} = '{value}'"
                )
        await connection.fetch(query("shard_admit_to_commits"))
    except PermissionDeniedError as error:
        raise StartError(
            f"this login may not set the roles up for Citus ({error}): run it as a superuser once"
        ) from error


async def spread(connection: DatabaseSession, step: Callable[[str], None]) -> list[str]:
    """Distribute what is not distributed yet, as the owner; return the names of the tables.

    All in one transaction: a kill half way leaves nothing behind.
    """
    async with connection.transaction():
        await connection.execute(query("shard_alone"))
        # Citus would take what refers to a reference table for its own at once, and by another name
        # than the functions know.
        references = await connection.fetch(query("shard_references"))
        for each in references:
            await connection.execute(
                f"ALTER TABLE {each['name']} DROP CONSTRAINT {each['constraint']}"
            )
        tables = await _spread_tables(connection, step)
        for each in references:
            await connection.execute(
                f"ALTER TABLE {each['name']} ADD CONSTRAINT {each['constraint']} "
                f"{each['definition']}"
            )
        await unfold_functions(connection)
        for row in await connection.fetch(query("shard_unkeyed")):
            # A shard is moved by logical replication, which finds a row by its key or as a whole.
            await connection.execute(f"ALTER TABLE {row['name']} REPLICA IDENTITY FULL")
        for row in await connection.fetch(query("shard_functions"), LOCAL_TABLES):
            await connection.execute(f"SELECT create_distributed_function('{row['signature']}')")
    return tables


async def ensure_locks(connection: DatabaseSession) -> None:
    """Make the tables for locks at every other node, which by now knows the function for it."""
    for row in await connection.fetch(query("shard_locks")):
        if not row["success"]:
            raise StartError(f"a database node has no tables for locks: {row['result']}")


async def _spread_tables(connection: DatabaseSession, step: Callable[[str], None]) -> list[str]:
    for row in await connection.fetch(query("shard_identities"), LOCAL_TABLES):
        await _replace_identity(connection, row["name"], row["column"], row["sequence"])
    done = []
    tables = await connection.fetch(query("shard_tables"), LOCAL_TABLES)
    for row in sorted(tables, key=lambda each: (each["by_bucket"], each["name"] != ANCHOR)):
        await _spread_table(connection, row["name"], by_bucket=row["by_bucket"])
        step(row["name"])
        done.append(row["name"])
    return done


async def _spread_table(connection: DatabaseSession, name: str, *, by_bucket: bool) -> None:
    target = f"postdate.{name}"
    if not by_bucket:
        await connection.execute("SELECT create_reference_table($1)", target)
    elif name == ANCHOR:
        await connection.execute("SELECT create_distributed_table($1, 'bucket')", target)
    else:
        await connection.execute(
            "SELECT create_distributed_table($1, 'bucket', colocate_with => $2)",
            target,
            f"postdate.{ANCHOR}",
        )


async def _replace_identity(
    connection: DatabaseSession, table: str, column: str, sequence: str
) -> None:
    last = await connection.fetchval(f"SELECT nextval('{sequence}')")
    name = f"postdate.{table}_{column}_number"
    await connection.execute(
        f"ALTER TABLE postdate.{table} ALTER {column} DROP IDENTITY;"
        f"CREATE SEQUENCE {name} AS integer START {last};"
        f"ALTER SEQUENCE {name} OWNED BY postdate.{table}.{column};"
        f"ALTER TABLE postdate.{table} ALTER {column} SET DEFAULT nextval('{name}');"
        f"GRANT USAGE ON SEQUENCE {name} TO {WRITER}"
    )


async def unfold_functions(connection: DatabaseSession) -> None:
    """Rewrite functions in SQL that read tables as PL/pgSQL, which Citus plans for their arguments.

    PostgreSQL folds their text into the statement around them; Citus refuses what comes of it. The
    few whose text it refuses as well have another one in `shard/functions`.
    """
    tables = {row["relname"] for row in await connection.fetch(query("shard_known_tables"))}
    for row in await connection.fetch(query("shard_inlined")):
        if row["name"] == _UNFOLDED or tables.intersection(_NAMED.findall(row["body"])):
            await connection.execute(_unfolded(row))
    for text in _overrides():
        await connection.execute(text)


def spread_bodies(shipped: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the bodies that functions may have where the schema is distributed."""
    found = {
        name: {form for body in bodies for form in (body, *(_wrap(v, body) for v in _VERBS))}
        for name, bodies in shipped.items()
    }
    for text in _overrides():
        for name, body in _OVERRIDE.findall(text):
            found[name] = {body}
    return found


def _overrides() -> list[str]:
    folder = files("postdate.database.shard").joinpath("functions")
    return [file.read_text() for file in folder.iterdir()]


def _unfolded(row: asyncpg.Record) -> str:
    verb = "RETURN QUERY" if row["many"] else "" if row["nothing"] else "RETURN"
    head = row["definition"].partition("AS $")[0].replace("LANGUAGE sql", "LANGUAGE plpgsql")
    return f"{head} AS $unfolded${_wrap(verb, row['body'])}$unfolded$"


def _wrap(verb: str, body: str) -> str:
    text = body.strip().removesuffix(";")
    if verb == "RETURN":
        text = f"({text})"
    return f"\n#variable_conflict use_column\nBEGIN\n{verb} {text};\nEND "
