"""Pauses that a test means: a fault that lasts, a client that waits before it asks again."""

import asyncio


async def wait_out(seconds: float) -> None:
    """Let so much time pass; a test that waits for something polls with a deadline instead."""
    await asyncio.sleep(seconds)
