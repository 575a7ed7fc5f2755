"""The everyday commands, as a process, against a running server."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import Api
from postdate.client import AsyncClient, ProblemError

COMMAND = Path(sys.executable).with_name("postdate")


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: Any
    err: str


async def run(api: Api, *arguments: str) -> Ran:
    """Run a command with --json against the edge of the tests."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {"POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key}
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *arguments,
        "--json",
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, msgspec.json.decode(out) if out else None, err.decode())


async def test_accounts_and_payments_from_the_command_line(api: Api) -> None:
    assert (await run(api, "account", "create", "alice")).out["balance"] == 0
    await run(api, "account", "create", "bob")
    adjusted = await run(api, "account", "adjust", "alice", "500", "--reason", "opening")
    assert adjusted.out["balance"] == 500
    made = await run(api, "payment", "schedule", "alice", "bob", "200", "--delay-seconds", "60")
    assert made.out["status"] == "PENDING"
    assert (await run(api, "account", "get", "alice")).out["held"] == 200
    listed = await run(api, "payment", "list", "--account-id", "alice")
    assert [one["payment_id"] for one in listed.out] == [made.out["payment_id"]]
    cancelled = await run(api, "payment", "cancel", made.out["payment_id"])
    assert cancelled.out["status"] == "CANCELLED"
    again = await run(api, "payment", "cancel", made.out["payment_id"])
    assert again.code == 5


async def test_jobs_from_the_command_line(api: Api) -> None:
    made = await run(api, "job", "create", "--lane", "mail", "--payload", '{"n": 1}')
    assert made.code == 0
    assert (await run(api, "job", "get", made.out["job_id"])).out["lane"] == "mail"
    assert len((await run(api, "job", "list", "--lane", "mail")).out) == 1
    assert (await run(api, "dead-letter", "list")).out == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["account", "get", "nobody"], 3, "not_found"),
        (["payment", "schedule", "a", "a", "5", "--delay-seconds", "5"], 1, "["),
        (["job", "create", "--payload", "{"], 1, "not JSON"),
        (["job", "explode"], 2, "explode"),
    ],
)
async def test_a_refusal_is_one_sentence_and_an_exit_code(
    api: Api, arguments: list[str], code: int, says: str
) -> None:
    ran = await run(api, *arguments)
    assert (ran.code, ran.out) == (code, None)
    assert says in ran.err
    assert "Traceback" not in ran.err


async def test_nobody_answering_is_said_so(api: Api) -> None:
    ran = await run(Api("http://127.0.0.1:1", api.session, api.node, api.key), "job", "list")
    assert (ran.code, "does not answer" in ran.err) == (1, True)


async def test_the_client_goes_through_pages_and_raises_problems(api: Api) -> None:
    async with AsyncClient(api.url, api.key) as client:
        for number in range(3):
            await client.call("POST", "/accounts", {"account_id": f"a{number}"})
        found = [one async for one in client.pages("/accounts", "accounts", {"limit": 2})]
        assert [one["account_id"] for one in found][:3] == ["a0", "a1", "a2"]
        with pytest.raises(ProblemError) as raised:
            await client.cancel_payment("nothing")
        assert (raised.value.status, raised.value.code) == (404, "not_found")


async def test_schedules_from_the_command_line(api: Api) -> None:
    body = '{"cron": "@daily", "template": {"job": {"destination": {"type": "worker"}}}}'
    made = await run(api, "schedule", "create", body)
    assert made.code == 0, made.err
    schedule_id = made.out["schedule_id"]
    assert len((await run(api, "schedule", "preview", schedule_id, "--count", "3")).out) == 3
    assert (await run(api, "schedule", "pause", schedule_id, "--note", "n")).out[
        "status"
    ] == "paused"
    assert (await run(api, "schedule", "trigger", schedule_id)).out["job_id"]
    assert len((await run(api, "schedule", "occurrences", schedule_id)).out) == 1
    assert (await run(api, "schedule", "list", "--missed")).out == []
    assert (await run(api, "schedule", "delete", schedule_id)).out["deleted"] is True
    assert (await run(api, "schedule", "get", schedule_id)).code == 3


async def test_one_page_of_top_is_json(api: Api) -> None:
    await run(api, "job", "create", "--lane", "shown", "--payload", "{}")
    await api.node.vitals.run_once()
    ran = await run(api, "top", "--once", "--interval", "0.1")
    assert ran.code == 0, ran.err
    assert [kind["kind"] for kind in ran.out["kinds"]][:3] == ["push", "pull", "payment"]
    assert [lane["lane"] for lane in ran.out["lanes"]] == ["shown"]
    assert ran.out["rates"]["jobs accepted"] >= 0


async def test_lanes_are_paused_and_jobs_waited_for(api: Api) -> None:
    made = await run(api, "job", "create", "--lane", "held", "--payload", "{}")
    assert (await run(api, "lane", "pause", "held", "--note", "n")).out["paused"] is True
    assert (await run(api, "lane", "resume", "held")).out["paused"] is False
    assert (await run(api, "lane", "get", "nowhere")).code == 3
    job_id = made.out["job_id"]
    late = await run(api, "job", "wait", job_id, "--timeout-seconds", "0")
    assert (late.code, "still" in late.err) == (1, True)
    await run(api, "job", "cancel", job_id)
    assert (await run(api, "job", "wait", job_id)).code == 1
    assert (await run(api, "job", "wait", job_id, "--for", "CANCELLED")).code == 0


async def test_a_redrive_that_is_done_partly_says_so(api: Api) -> None:
    absent = "01a1e1c8-dd23-7001-bd68-723753d52271"
    ran = await run(api, "dead-letter", "redrive", absent)
    assert (ran.code, ran.out["redriven"]) == (6, 0)
    assert (await run(api, "dead-letter", "redrive", "--lane", "empty")).code == 0
    assert (await run(api, "dead-letter", "redrive")).code == 1
