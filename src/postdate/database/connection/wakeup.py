"""Hints between processes, by LISTEN and NOTIFY: never within a business transaction."""

import asyncio
from collections.abc import Callable
from typing import Any

from postdate.database.connection.query import Connection, query


async def send(connection: Connection, text: str) -> None:
    """Notify every process that listens, in a statement of its own."""
    await connection.execute(query("wakeup_send"), text)


async def listen(
    connection: Connection, begun: Callable[[], None], heard: Callable[[str], bool | None]
) -> bool:
    """Pass notifications on until the connection ends; call `begun` once listening.

    When `heard` returns True, because there are too many, the connection is closed: the driver
    would read and queue whatever the server sends. Return whether that was so.
    """
    ended = asyncio.Event()
    flooded = False

    def on_end(_: Any) -> None:
        ended.set()

    def on_text(_connection: Any, _pid: int, _channel: str, text: object) -> None:
        nonlocal flooded
        # What the driver had queued by then still comes.
        if not flooded and heard(str(text)):
            flooded = True
            connection.terminate()

    connection.add_termination_listener(on_end)
    channel = ""
    try:
        channel = await connection.fetchval(query("wakeup_channel"))
        await connection.add_listener(channel, on_text)
        begun()
        await ended.wait()
        return flooded
    finally:
        if not connection.is_closed():
            connection.remove_termination_listener(on_end)
            if channel:
                await connection.remove_listener(channel, on_text)
            # The driver does not know that it listens when we were cancelled meanwhile.
            await connection.execute("UNLISTEN *")
