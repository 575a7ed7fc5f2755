"""An assistant reads by tools made from the API, and writes only what a dry run has shown."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from conftest import Api
from postdate.api.endpoints import ENDPOINTS
from postdate.core.identity import Scope
from postdate.mcp.tool import SECRET, UNSUITABLE, tools

pytestmark = pytest.mark.process


@asynccontextmanager
async def assistant(api: Api, *words: str) -> AsyncIterator[ClientSession]:
    command = StdioServerParameters(
        command=str(Path(sys.executable).with_name("postdate")),
        args=["mcp", *words],
        env={**os.environ, "POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key},
    )
    async with stdio_client(command) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def use(session: ClientSession, name: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    found = await session.call_tool(name, arguments)
    assert found.structured_content is not None
    return bool(found.is_error), found.structured_content


async def test_it_reads_and_offers_nothing_that_writes_unless_allowed(api: Api) -> None:
    async with assistant(api) as session:
        listed = (await session.list_tools()).tools
        names = {tool.name for tool in listed}
        assert {"list_jobs", "get_payment", "whoami"} <= names
        assert {tool.annotations.read_only_hint for tool in listed if tool.annotations} == {True}
        assert "create_job" not in names
        assert "get_signing_secret" not in names, "a secret is not for an assistant"
        failed, found = await use(session, "list_jobs", limit=5)
        assert (failed, found["jobs"]) == (False, [])
        failed, found = await use(session, "show_job", job_id="nonsense")
        assert (failed, found["code"]) == (True, "not_found")
        failed, found = await use(session, "show_job", job_id="..")
        assert (failed, found["detail"]) == (True, "job_id names nothing")
        failed, found = await use(session, "show_job")
        assert (failed, found["detail"]) == (True, "give job_id")
        failed, found = await use(session, "list_jobs", lanes="mail")
        assert (failed, found["detail"]) == (True, "list_jobs takes no lanes")
        failed, found = await use(session, "create_job", destination={"type": "worker"})
        assert (failed, found["detail"]) == (True, "there is no tool create_job")


async def test_a_change_is_shown_first_and_sent_once_when_it_is_confirmed(api: Api) -> None:
    async with assistant(api, "--allow", "jobs:write") as session:
        wanted = {"destination": {"type": "worker"}, "lane": "mail", "payload": {"n": 1}}
        _, shown = await use(session, "create_job", **wanted)
        assert shown["dry_run"]["body"] == wanted
        assert (await api.call("GET", "/jobs")).body["jobs"] == []
        other = {**wanted, "lane": "other"}
        _, refused = await use(session, "create_job", **other, confirm=shown["confirm"])
        assert refused["confirm"] != shown["confirm"], "another request needs its own dry run"
        made = [
            (await use(session, "create_job", **wanted, confirm=shown["confirm"]))[1]
            for _ in range(2)
        ]
        assert made[0]["job_id"] == made[1]["job_id"]
        [job] = (await api.call("GET", "/jobs")).body["jobs"]
        assert job["lane"] == "mail"
        failed, found = await use(session, "create_job", lane="mail")
        assert (failed, found["detail"]) == (True, "give destination")


def test_every_schema_of_a_tool_is_whole() -> None:
    made = tools(ENDPOINTS, list(Scope))
    assert len({tool.name for tool in made}) == len(made) > 80
    for tool in made:
        assert "#/components" not in str(tool.schema), tool.name
        known = set(tool.schema.get("$defs", {}))
        assert {name for name in known if f"#/$defs/{name}" in str(tool.schema)} == known
        clash = set(tool.path_names) & set(tool.query_names)
        assert not clash


def test_what_is_left_out_is_named_as_the_api_names_it() -> None:
    assert {endpoint.tag for endpoint in ENDPOINTS} >= UNSUITABLE
    assert {endpoint.handler.__name__ for endpoint in ENDPOINTS} >= SECRET
    made = {tool.name for tool in tools(ENDPOINTS, list(Scope))}
    assert not made & {"get_test_clock", "claim_jobs", *SECRET}


def test_no_tool_answers_with_a_secret_whatever_is_allowed() -> None:
    offered = tools(ENDPOINTS, list(Scope))
    fields = {
        tool.name: {each.encode_name for each in msgspec.structs.fields(tool.endpoint.returns)}
        for tool in offered
        if tool.endpoint.returns
    }
    assert [name for name, found in fields.items() if "secret" in found] == []
    keys = [name for name, found in fields.items() if {"key", "key_id"} <= found]
    assert keys == [], "a key is a secret; that of a job is a name"
    assert {"whoami", "list_keys", "create_job", "change_destination"} <= fields.keys()
