"""Reads on behalf of one tenant: each statement binds its tenant itself, in one round trip."""

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar

from postdate.database.connection.pool import Connection

T = TypeVar("T")

MAX_TEXTS: Final = 1024
"""How many bound texts are remembered: there is one for each named query that reads."""

_PARAMETER: Final = re.compile(r"\$(\d+)")


class StatementSource(Protocol):
    """What runs one statement as the reader, on a connection that answers."""

    sharded: bool
    """Whether a transaction tells the tenant to every node: then no statement binds it."""

    async def read_statement(self, tenant_id: int, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one statement on behalf of a tenant."""
        ...


class TenantReader:
    """Reads in place of a connection; every statement sees one tenant only."""

    def __init__(self, source: StatementSource, tenant_id: int) -> None:
        self._source = source
        self._tenant_id = tenant_id

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read rows."""
        text, given = self._bind(query, args)
        return await self._source.read_statement(
            self._tenant_id, lambda held: held.fetch(text, *given, timeout=timeout)
        )

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first row, or None."""
        text, given = self._bind(query, args)
        return await self._source.read_statement(
            self._tenant_id, lambda held: held.fetchrow(text, *given, timeout=timeout)
        )

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first value of the first row, or None."""
        text, given = self._bind(query, args)
        return await self._source.read_statement(
            self._tenant_id, lambda held: held.fetchval(text, *given, timeout=timeout)
        )

    def _bind(self, query: str, args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
        if self._source.sharded:
            return query, args
        return bound(query), (*args, self._tenant_id)


@lru_cache(MAX_TEXTS)
def bound(query: str) -> str:
    """Write a query so that row-level security admits the tenant given as one more parameter.

    OFFSET separates the query from the condition around it. That condition depends on no row, so
    PostgreSQL evaluates it once, before it starts the query. The setting ends with the statement.
    If the order ever changed, the query would see no row of any tenant.
    """
    number = max((int(each) for each in _PARAMETER.findall(query)), default=0) + 1
    setting = f"set_config('postdate.tenant_id', ${number}::integer::text, true)"
    return f"""
SELECT seen.* FROM (SELECT * FROM (
{query}
) AS asked OFFSET 0) AS seen WHERE (SELECT {setting}) IS NOT NULL"""  # noqa: S608 - named queries
