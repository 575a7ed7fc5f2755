"""Nodes that expand schedules, and a killer of their connections."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import asyncpg

from postdate.database.connection.error import DatabaseError
from postdate.scheduler.expander import Expander

BROKEN = DatabaseError
SPARED = "spared"
"""The application_name of connections that are not killed."""


async def until_done_expand(expander: Expander, done: asyncio.Event) -> None:
    """Loop as a node does, without its log and its pauses."""
    while not done.is_set():
        try:
            count = await expander.run_once()
        except BROKEN:
            count = 0
        await asyncio.sleep(0 if count else 0.002)


async def until_done_kill(
    admin: asyncpg.Connection, name: str, done: asyncio.Event, kills: list[int]
) -> None:
    """End a random connection of the node every now and then, in the middle of whatever it does."""
    draw = random.Random(11)
    while not done.is_set():
        pids = await admin.fetch(
            "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid() "
            "AND state <> 'idle' AND application_name <> $2",
            name,
            SPARED,
        )
        if pids:
            pid = draw.choice(pids)["pid"]
            await admin.execute("SELECT pg_terminate_backend($1)", pid)
            kills.append(pid)
        await asyncio.sleep(0.12)


async def patiently(act: Callable[[], Awaitable[None]]) -> None:
    """Do it again until nobody kills it; for what may be done twice."""
    while True:
        try:
            await act()
        except BROKEN:
            continue
        return
