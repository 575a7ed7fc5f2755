"""`postdate mcp`: tools for an assistant, over standard input and output."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from postdate.cli.output import UsageError
from postdate.cli.remote import server
from postdate.client import AsyncClient
from postdate.core.identity import Scope
from postdate.words.error import StartError

if TYPE_CHECKING:
    from postdate.mcp.server import ToolServer


def mcp(
    *,
    allow: Annotated[
        list[str] | None,
        Parameter(help="A scope whose operations may change something, such as jobs:write."),
    ] = None,
) -> None:
    """Offer the API to an assistant that speaks MCP: what reads, and what you allow.

    A tool that changes something shows the request first, and sends it only when it is called
    again with the confirmation of that dry run. The key still decides what is allowed.
    """
    allowed = [_scope(each) for each in allow or []]
    try:
        from postdate.mcp.server import ToolServer
    except ModuleNotFoundError as error:
        raise StartError("install what assistants need: pip install 'postdate[mcp]'") from error
    asyncio.run(_serve(ToolServer, allowed))


def _scope(text: str) -> Scope:
    try:
        return Scope(text)
    except ValueError:
        raise UsageError(f"{text} is no scope: {', '.join(Scope)}") from None


async def _serve(kind: "type[ToolServer]", allowed: list[Scope]) -> None:
    found = server()
    async with AsyncClient(found.url, found.api_key) as client:
        await kind(client, allowed).run()
