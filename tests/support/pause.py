"""Pauses that a test means: a fault that lasts, a client that waits before it asks again."""

import asyncio
import time


async def wait_out(seconds: float) -> None:
    """Let so much time pass; a test that waits for something polls with a deadline instead.

    A timer of uvloop counts whole milliseconds, so that a sleep can end almost one early.
    """
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:  # noqa: ASYNC110 - time sets no event
        await asyncio.sleep(left)
