"""Know when the client has gone."""

from starlette.types import Receive


async def until_gone(receive: Receive) -> None:
    """Wait until the client has gone, passing over a body that nobody read."""
    while (await receive())["type"] != "http.disconnect":
        pass
