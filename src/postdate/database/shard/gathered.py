"""Read tables of many shards like local tables, from copies on the coordinator.

A proof looks up by key what lies in another bucket, row by row. Citus joins no rows of different
shards in this way. So each table that a proof names is copied once, with its indexes, into a
temporary table of the proof's own transaction. A view reads the copies of its tables.
"""

import re
from typing import Any, Final

import asyncpg

from postdate.database.connection.database import LONG_SECONDS
from postdate.database.connection.pooled import PooledConnection
from postdate.database.connection.query import query

_UNDO: Final = "ROLLBACK TO"
_SOURCE: Final = re.compile(r"\b(FROM|JOIN)(\s+)(\w+)\b(?!\s*\()")
"""A table, or a part of the query itself, that a query reads."""


class GatheredConnection(PooledConnection):
    """A connection in a transaction whose queries read copies of the distributed tables."""

    __slots__ = ("_gathered", "_tables", "_views")

    def __init__(
        self, lent: asyncpg.pool.PoolConnectionProxy, tables: list[str], views: dict[str, str]
    ) -> None:
        super().__init__(lent)
        self._tables = frozenset(tables)
        self._views = views
        self._gathered: set[str] = set()

    # The driver's own limit of time: nothing is waited for besides.
    async def execute(
        self,
        query: str,
        *args: object,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> str:
        """Run a statement; one that undoes others undoes the copies made since."""
        if query.startswith(_UNDO):
            self._gathered.clear()
        return await super().execute(query, *args, timeout=timeout)

    async def fetch(
        self,
        query: str,
        *args: object,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[asyncpg.Record]:
        """Read rows."""
        return await super().fetch(await self._gather(query), *args, timeout=timeout)

    async def fetchrow(
        self,
        query: str,
        *args: object,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> asyncpg.Record | None:
        """Read the first row."""
        return await super().fetchrow(await self._gather(query), *args, timeout=timeout)

    async def fetchval(
        self,
        query: str,
        *args: object,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Any:
        """Read the first value of the first row."""
        return await super().fetchval(await self._gather(query), *args, timeout=timeout)

    async def _gather(self, text: str) -> str:
        """Copy the tables that a query names, and write it so that it reads the copies."""
        named = {found[3] for found in _SOURCE.finditer(text)} - self._gathered
        for name in sorted(named & self._tables):
            await super().execute(f"DROP TABLE IF EXISTS pg_temp.{name} CASCADE")
            await super().execute(
                f"CREATE TEMP TABLE {name} (LIKE postdate.{name} INCLUDING INDEXES) ON COMMIT DROP"
            )
            copied = f"SELECT * FROM postdate.{name}"  # noqa: S608 - our own tables
            await super().execute(f"INSERT INTO pg_temp.{name} {copied}", timeout=LONG_SECONDS)
            await super().execute(f"ANALYZE pg_temp.{name}", timeout=LONG_SECONDS)
            self._gathered.add(name)
        for name in sorted(named & self._views.keys()):
            defined = await self._gather(self._views[name])
            await super().execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {defined}")
            self._gathered.add(name)
        return _SOURCE.sub(self._read_copy, text)

    def _read_copy(self, found: re.Match[str]) -> str:
        """Replace the name of a copied table; leave anything else unchanged."""
        if found[3] not in self._tables | self._views.keys():
            return found[0]
        return f"{found[1]}{found[2]}pg_temp.{found[3]}"


async def gathered(connection: PooledConnection) -> GatheredConnection:
    """Make an open transaction read copies of all distributed tables.

    Every node takes its snapshot with the first statement that reaches it, so it is one for all.
    """
    await connection.execute("SET LOCAL search_path = postdate, pg_temp")
    rows = await connection.fetch(query("shard_known_tables"))
    views = await connection.fetch(query("shard_views"))
    await connection.fetchval("SELECT count(*) FROM outbox_lock")
    return GatheredConnection(
        connection.lent,
        [row["relname"] for row in rows],
        {row["name"]: row["definition"] for row in views},
    )
