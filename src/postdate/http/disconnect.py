"""Wait for a client to disconnect."""

from starlette.types import Receive


async def until_gone(receive: Receive) -> None:
    """Wait until the client has disconnected, discarding an unread body."""
    while (await receive())["type"] != "http.disconnect":
        pass
