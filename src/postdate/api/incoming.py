"""Take messages from the server, and know when the client has gone."""

import asyncio

from starlette.types import Message, Receive


async def next_message(receive: Receive) -> Message:
    """Receive one message.

    Granian may cancel a waiting `receive` when the connection breaks. Nobody cancelled us then, so
    it is a disconnect like any other.
    """
    try:
        return await receive()
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        return {"type": "http.disconnect"}


async def until_gone(receive: Receive) -> None:
    """Wait until the client has gone, passing over a body that nobody read."""
    while (await next_message(receive))["type"] != "http.disconnect":
        pass
