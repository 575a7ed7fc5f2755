"""The roles and the database inside a new cluster; every statement can be run again."""

import re
import secrets
from typing import Final

import asyncpg

from postdate.database.embedded.credentials import Credentials, dsn
from postdate.database.embedded.probe import PATIENCE_SECONDS
from postdate.words.error import StartError

_LOGIN: Final = "LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"
_GROUP: Final = "NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION"
WRITER: Final = "postdate_writer"
READER: Final = "postdate_reader"
CLIENT: Final = "postdate_client"
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
RESERVED: Final = ("postdate", "postgres", "pg_", "public")
PASSWORD_BYTES: Final = 24
MAX_CONNECTIONS: Final = 20
"""How many connections the login of an application may have."""


_NO_ADVISORY_LOCKS: Final = """
DO $$
DECLARE
    taking regprocedure;
BEGIN
    FOR taking IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
                     AND proname ~ '^pg_(try_)?advisory_(xact_)?lock' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', taking);
    END LOOP;
END $$"""
"""All logins share the memory for locks: one that fills it with advisory locks stops the server."""

_TEMPLATE: Final = "template1"


async def ensure(credentials: Credentials) -> bool:
    """Bring roles, passwords and database to the state the credentials describe."""
    login = credentials.login
    connection = await asyncpg.connect(credentials.superuser_dsn(), timeout=PATIENCE_SECONDS)
    try:
        await _role(connection, login.owner, f"{_LOGIN} PASSWORD '{login.owner_password}'")
        await _role(connection, WRITER, _GROUP)
        await _role(connection, READER, _GROUP)
        await _role(connection, CLIENT, _GROUP)
        # The owner lets the login roles of clients in: see `postdate tenant bind-role`.
        await connection.execute(f"GRANT {CLIENT} TO {login.owner} WITH ADMIN OPTION")
        await _role(connection, login.app, f"{_LOGIN} PASSWORD '{login.app_password}'")
        await connection.execute(f"GRANT {WRITER}, {READER} TO {login.app}")
        # Metrics name the session that pins the oldest snapshot, of any role.
        await connection.execute(f"GRANT pg_read_all_stats TO {WRITER}")
        await _close_template(credentials)
        await connection.execute(f"REVOKE CONNECT ON DATABASE postgres, {_TEMPLATE} FROM PUBLIC")
        await _database(connection, login.database, login.owner, login.app)
    finally:
        await connection.close()
    return True


async def create_login(credentials: Credentials, name: str) -> str | None:
    """Create a login with a schema of its own and return its address; None if the role exists."""
    if not NAME.fullmatch(name) or name.startswith(RESERVED):
        raise StartError(
            f"{name!r} cannot be the name of a role: take a-z, 0-9 and _, a letter first, "
            "and neither postdate nor pg_ in front"
        )
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    database = credentials.login.database
    connection = await asyncpg.connect(
        credentials.superuser_dsn(database), timeout=PATIENCE_SECONDS
    )
    try:
        async with connection.transaction():
            if await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", name):
                return None
            limit = f"CONNECTION LIMIT {MAX_CONNECTIONS}"
            await connection.execute(f"CREATE ROLE {name} {_LOGIN} {limit} PASSWORD '{password}'")
            await connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {name}")
            await connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    finally:
        await connection.close()
    return dsn(name, password, database, credentials.login.host)


async def _close_template(credentials: Credentials) -> None:
    """Take advisory locks away from clients, in every database that is made from now on."""
    connection = await asyncpg.connect(
        credentials.superuser_dsn(_TEMPLATE), timeout=PATIENCE_SECONDS
    )
    try:
        await connection.execute(_NO_ADVISORY_LOCKS)
    finally:
        await connection.close()


async def _role(connection: asyncpg.Connection, name: str, attributes: str) -> None:
    exists = await connection.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", name)
    await connection.execute(f"{'ALTER' if exists else 'CREATE'} ROLE {name} {attributes}")


async def _database(connection: asyncpg.Connection, name: str, owner: str, app: str) -> None:
    exists = await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", name)
    if not exists:
        await connection.execute(f"CREATE DATABASE {name} OWNER {owner}")
    await connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
    await connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {name} TO {app}")
