"""Serve the tools over standard input and output."""

from collections.abc import Collection
from importlib.metadata import version
from typing import Any, Final

import msgspec

from mcp import types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from postdate.api.endpoints import ENDPOINTS
from postdate.client import AsyncClient, PostdateError
from postdate.core.identity import Scope
from postdate.mcp.tool import CONFIRM, ApiTool, Confirmations, tools

INSTRUCTIONS: Final = (
    "Postdate runs jobs and moves money at an instant. Amounts are integers of the currency's "
    "minor unit, times are RFC 3339 in UTC. A tool that changes something answers first with the "
    "request that it would send; call it again with `confirm` to send it."
)


class ToolServer:
    """Answers an assistant: which tools there are, and what a call of one gives."""

    def __init__(self, client: AsyncClient, allowed: Collection[Scope]) -> None:
        self._client = client
        self._tools = {tool.name: tool for tool in tools(ENDPOINTS, allowed)}
        self._confirmations = Confirmations()

    async def run(self) -> None:
        """Serve until standard input ends."""
        server: Server[Any] = Server(
            "postdate",
            version=version("postdate"),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    async def _list(self, _: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in self._tools.values()])

    async def _call(self, _: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(asked.name)
        if tool is None:
            return _answer({"detail": f"there is no tool {asked.name}"}, failed=True)
        arguments = dict(asked.arguments or {})
        if trouble := tool.trouble(arguments):
            return _answer({"detail": trouble}, failed=True)
        call = tool.prepare(arguments)
        given = str(arguments.get(CONFIRM, ""))
        if not tool.reads and not self._confirmations.fits(call, given):
            return _answer(
                {
                    "dry_run": msgspec.to_builtins(call),
                    "confirm": self._confirmations.of(call),
                    "detail": "Nothing was done. Call again with `confirm` to send this request.",
                }
            )
        key = given if tool.endpoint.idempotency else None
        try:
            found = await self._client.call(
                call.method, call.path, call.body, query=call.query, idempotency_key=key
            )
        except PostdateError as error:
            return _answer(
                {"detail": str(error), "code": getattr(error, "code", None)}, failed=True
            )
        return _answer(found if isinstance(found, dict) else {"done": True})


def _described(tool: ApiTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads,
            destructive_hint=not tool.reads,
            idempotent_hint=tool.reads,
            open_world_hint=False,
        ),
    )


def _answer(found: dict[str, Any], *, failed: bool = False) -> types.CallToolResult:
    text = msgspec.json.encode(found).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=found,
        is_error=failed,
    )
