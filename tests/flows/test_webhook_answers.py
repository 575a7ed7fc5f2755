"""Answers of webhooks that become results, results kept elsewhere, and cancel URLs."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from aiohttp import web
from standardwebhooks import Webhook as Verifier

from conftest import Api, eventually
from flows.test_cancel_running import add, claim, findings, say, show
from flows.test_webhook_jobs import all_in, lower, named
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.node.node import Node
from postdate.secret.payload_encryption import MARK
from postdate.worker import cancel_caller
from support.own_transaction import OwnRole, own_role, refusal
from support.receiver import Answer, Receiver

pytestmark = [
    pytest.mark.usefixtures("workers"),
    pytest.mark.own_database("its loops work for every tenant"),
]
PRIVATE = "http://10.0.0.1/cancel"


@pytest.fixture
async def role(
    api: Api, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, api.tenant) as role:
        yield role


def answers(text: str, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, status=status)

    return answer


async def call(api: Api, url: str, **fields: Any) -> str:
    return await add(api, "calls", destination={"type": "webhook", "url": url, **fields})


@pytest.mark.parametrize(
    ("text", "result", "code"),
    [
        ('{"invoice": 7}', {"invoice": 7}, None),
        ("null", None, None),
        ('"' + "x" * (65536 - 2) + '"', "x" * (65536 - 2), None),
        ('"' + "x" * (65536 - 1) + '"', None, "answer_too_large"),
        ("thanks", None, "answer_not_json"),
        ("1" * 70_000, None, "answer_too_large"),
        ("", None, None),
    ],
)
async def test_an_answer_becomes_the_result_if_it_is_json(
    api: Api, receiver: Receiver, text: str, result: Any, code: str | None
) -> None:
    receiver.script("/a", answers(text))
    job_id = await call(api, receiver.url("/a"), keep_answer=True)
    await all_in(api, [job_id], "COMPLETED")
    shown = await show(api, job_id)
    assert shown.get("result") == result
    assert ("result" in shown) is (code is None and text != "")
    assert shown.get("code") == code
    assert shown["http_status"] == 200
    assert await findings(api) == []


async def test_an_answer_is_no_result_unless_it_was_asked_for(api: Api, receiver: Receiver) -> None:
    receiver.script("/a", answers('{"invoice": 7}'))
    job_id = await call(api, receiver.url("/a"))
    await all_in(api, [job_id], "COMPLETED")
    assert "result" not in await show(api, job_id)


async def test_an_answer_is_encrypted_where_payloads_are(
    api: Api, receiver: Receiver, workers: list[Node]
) -> None:
    await api.call("PUT", "/settings/job.encryption", {"value": "on"})
    for node in (*workers, api.node):
        await node.refresh_settings()
    receiver.script("/a", answers('{"name": "Ada"}'))
    receiver.script("/b", answers("no Ada here", 400))
    kept = await call(api, receiver.url("/a"), keep_answer=True)
    failed = await call(api, receiver.url("/b"))
    await all_in(api, [kept], "COMPLETED")
    await all_in(api, [failed], "FAILED")
    for job_id in (kept, failed):
        statement = "SELECT response FROM outcome WHERE subject = $1"
        at_rest = await api.node.database.writer.fetchval(statement, UUID(job_id))
        assert at_rest.startswith(MARK)
    assert (await show(api, kept))["result"] == {"name": "Ada"}
    [attempt] = (await api.call("GET", f"/jobs/{failed}/attempts")).body["attempts"]
    assert attempt["response"] == "no Ada here"


async def test_a_larger_result_lies_elsewhere(api: Api) -> None:
    job_id = await add(api, "refs")
    [lease] = await claim(api, "refs")
    for wrong in ({"result_ref": ""}, {"result_ref": "x" * 2049}, {"result_ref": 1}):
        refused = await say(api, "complete", lease, **wrong)
        assert (refused.status, refused.body["field"]) == (422, "result_ref")
    both = await say(api, "complete", lease, result=1, result_ref="s3://reports/1")
    assert (both.status, both.body["field"]) == (422, "result_ref")
    done = await say(api, "complete", lease, result_ref="s3://reports/1")
    assert done.body["status"] == "COMPLETED"
    shown = await show(api, job_id)
    assert shown["result_ref"] == "s3://reports/1"
    assert not {"result", "code"} & shown.keys()
    assert await findings(api) == []


async def test_a_cancel_url_is_called_until_it_answers(
    api: Api, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel_caller, "TAKEN_SECONDS", 0.5)
    secret = await named(api, receiver.url("/work"))
    stopped, refusals = asyncio.Event(), iter([500, 429])

    async def works(_: web.Request) -> web.StreamResponse:
        await stopped.wait()
        return web.Response(status=409)

    async def hears(_: web.Request) -> web.StreamResponse:
        return web.Response(status=next(refusals, 204))

    receiver.script("/work", works)
    receiver.script("/cancel", hears)
    to = {"type": "webhook", "name": "orders", "cancel_url": receiver.url("/cancel")}
    job_id = await add(api, "calls", destination=to)
    await receiver.wait_for(1)
    asked = (await api.call("POST", f"/jobs/{job_id}/cancel")).body
    assert asked["result"] == "cancel_requested"

    async def settled() -> bool:
        found = "SELECT cancel_call_at IS NULL FROM job_progress WHERE job_id = $1"
        return bool(await api.node.database.writer.fetchval(found, UUID(job_id)))

    await eventually(settled)
    assert (await show(api, job_id))["status"] == "RUNNING"
    stopped.set()
    await all_in(api, [job_id], "CANCELLED")
    heard = [each for each in receiver.arrivals if each.path == "/cancel"]
    assert len(heard) == 3
    told = Verifier(secret).verify(heard[0].body, lower(heard[0]))
    assert told == {
        "type": "job.cancel_requested",
        "data": {"job_id": job_id, "cancel_deadline": asked["cancel_deadline"]},
    }
    assert lower(heard[0])["webhook-id"] == f"{job_id}-cancel"


async def test_nothing_is_called_for_a_job_that_waits(api: Api, receiver: Receiver) -> None:
    to = {"type": "webhook", "url": receiver.url(), "cancel_url": receiver.url("/cancel")}
    job_id = await add(api, "calls", destination=to, delay_seconds=60)
    assert (await api.call("POST", f"/jobs/{job_id}/cancel")).body["status"] == "CANCELLED"
    found = "SELECT count(*) FROM job_progress WHERE job_id = $1"
    assert await api.node.database.writer.fetchval(found, UUID(job_id)) == 0


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"cancel_url": PRIVATE}, "destination.cancel_url", "target_not_allowed"),
        ({"cancel_url": "ftp://x"}, "destination.cancel_url", "invalid_field"),
        ({"cancel_url": ""}, "destination.cancel_url", "invalid_field"),
        ({"cancel_url": "https://x/" + "y" * 2048}, "destination.cancel_url", "invalid_field"),
        ({"keep_answer": "yes"}, "destination.keep_answer", "invalid_field"),
    ],
)
async def test_wrong_fields_are_refused_by_name(
    api: Api, role: OwnRole, fields: dict[str, Any], field: str, code: str
) -> None:
    to = {"type": "webhook", "url": "https://example.com/", **fields}
    answered = await api.call("POST", "/jobs", {"destination": to})
    assert (answered.status, answered.body["field"], answered.body["code"]) == (422, field, code)
    async with role.connect() as own:
        with pytest.raises(asyncpg.PostgresError) as raised:
            await own.execute("SELECT postdate.enqueue($1)", json.dumps(to))
    assert refusal(raised.value)["field"] == field


async def test_a_worker_and_a_queue_keep_no_answers(api: Api) -> None:
    for to in ({"type": "worker"}, {"type": "queue", "name": "q"}):
        answered = await api.call("POST", "/jobs", {"destination": to | {"keep_answer": True}})
        assert (answered.status, answered.body["field"]) == (422, "destination.keep_answer")


async def test_a_commit_of_ones_own_asks_for_the_answer(
    api: Api, role: OwnRole, receiver: Receiver
) -> None:
    receiver.script("/work", answers('{"invoice": 7}'))
    await named(api, receiver.url("/work"))
    url = "https://example.com/cancel"
    to = {"type": "webhook", "name": "orders", "keep_answer": True, "cancel_url": url}
    async with role.connect() as own:
        job_id = await own.fetchval("SELECT postdate.enqueue($1)", json.dumps(to))

    async def done() -> bool:
        return (await show(api, str(job_id))).get("result") == {"invoice": 7}

    await eventually(done, 20, 0.1)
