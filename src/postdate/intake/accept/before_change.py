"""A step before a change: asked under its lock whether to make it, in its transaction."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from postdate.store.connection.database import Connection

T = TypeVar("T")

BeforeChange = Callable[[Connection, T], Awaitable[bool]]
"""Called with what there is, locked; False leaves it so. What it writes is committed with it."""


async def always(_connection: Connection, _found: Any) -> bool:
    """Change it, whatever there is."""
    return True
