"""A check before a change, in the change's transaction and under its lock."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from postdate.database.connection.database import Connection

T = TypeVar("T")

BeforeChange = Callable[[Connection, T], Awaitable[bool]]
"""Called with what there is, locked; False leaves it so. What it writes is committed with it."""


async def always(_connection: Connection, _found: Any) -> bool:
    """Allow every change."""
    return True
