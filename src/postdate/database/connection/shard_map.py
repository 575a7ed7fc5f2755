"""Shard map: which nodes of a Citus cluster hold what, as a process last learned."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import asyncpg

from postdate.database.connection.address import DatabaseNode


@dataclass(slots=True)
class ShardMap:
    """Empty where there is one PostgreSQL."""

    owners: Mapping[int, DatabaseNode] = field(default_factory=dict)
    """Which database node holds a bucket."""

    attached: DatabaseNode | None = None
    """Where the hot statements of this process go; None means the coordinator."""

    open_writer: Callable[[DatabaseNode], Awaitable[asyncpg.Pool]] | None = None
    """Opens a pool of the writer at a database node."""
