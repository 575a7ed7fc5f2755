"""Unique keys in your own transaction: decided when it commits."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.own_transaction import OwnRole, own_role, refusal

if TYPE_CHECKING:
    from uuid import UUID

WORKER = json.dumps({"type": "worker"})
ENQUEUE = (
    "SELECT postdate.enqueue(destination => $1, payload => $2, delay_seconds => $3, "
    "unique_by => $4, idempotency_key => $5, lane => $6)"
)


@pytest.fixture
async def role(
    api: Api, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, api.tenant) as role:
        yield role


@pytest.fixture(autouse=True)
async def lane(api: Api) -> None:
    """Make the lane, which two transactions at once would make for each other."""
    assert (await api.call("POST", "/jobs", {"destination": {"type": "worker"}})).status == 201


@pytest.fixture
async def own(role: OwnRole) -> AsyncIterator[asyncpg.Connection]:
    async with role.connect() as connection:
        yield connection


async def enqueue(
    own: asyncpg.Connection,
    on_conflict: str = "keep",
    *,
    payload: Any = 1,
    delay: float = 50,
    key: str | None = None,
    lane: str = "default",
    **more: Any,
) -> str:
    unique = json.dumps({"key": "reindex-7", "on_conflict": on_conflict, **more})
    sent = WORKER, json.dumps(payload), delay, unique, key, lane
    found: UUID = await own.fetchval(ENQUEUE, *sent)
    return str(found)


async def post(api: Api, on_conflict: str = "keep", **members: Any) -> tuple[int, dict[str, Any]]:
    unique = {"key": "reindex-7", "on_conflict": on_conflict}
    body = {"destination": {"type": "worker"}, "delay_seconds": 50, "unique": unique, **members}
    answer = await api.call("POST", "/jobs", body)
    return answer.status, answer.body


async def shown(api: Api, job_id: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/jobs/{job_id}")).body)


async def waiting(api: Api) -> int:
    return len((await api.call("GET", "/jobs?status=PENDING")).body["jobs"])


async def test_both_ways_in_share_their_keys(api: Api, own: asyncpg.Connection) -> None:
    first = await enqueue(own)
    assert await enqueue(own) == first
    status, body = await post(api)
    assert (status, body["job_id"], body["deduplicated"]) == (200, first, True)
    assert (await shown(api, first))["unique"] == {"key": "reindex-7"}


async def test_replace_and_debounce_revise_the_waiting_job(
    api: Api, own: asyncpg.Connection
) -> None:
    _, body = await post(api, payload=1, retry={"max_attempts": 9})
    assert await enqueue(own, "replace", payload=[2], delay=60) == body["job_id"]
    replaced = await shown(api, body["job_id"])
    assert (replaced["payload"], replaced["revision"], "retry" in replaced) == ([2], 1, False)
    await enqueue(own, "debounce", payload=3, delay=80, max_delay_seconds=90)
    debounced = await shown(api, body["job_id"])
    assert (debounced["payload"], debounced["revision"]) == ([2], 2)
    assert debounced["due_at"] > replaced["due_at"] > body["due_at"]
    events = (await api.call("GET", f"/events?subject={body['job_id']}")).body
    assert await waiting(api) == 1, events


async def test_one_transaction_makes_one_waiting_job(api: Api, own: asyncpg.Connection) -> None:
    async with own.transaction():
        ids = [await enqueue(own, way, payload=way) for way in ("keep", "replace", "keep")]
    assert len(set(ids)) == 1
    assert (await shown(api, ids[0]))["payload"] == "replace"


async def test_the_commit_decides_what_waits(api: Api, own: asyncpg.Connection) -> None:
    async with own.transaction():
        mine = await enqueue(own, "replace", payload="mine")
        status, body = await post(api, payload="theirs")
        assert (status, body["job_id"] != mine) == (201, True)
    assert (await shown(api, body["job_id"]))["payload"] == "mine"
    assert await waiting(api) == 1


async def test_a_request_that_was_merged_is_answered_again(
    api: Api, own: asyncpg.Connection
) -> None:
    first = await enqueue(own)
    assert await enqueue(own, key="k", payload=2) == first
    await api.call("POST", f"/jobs/{first}/cancel")
    assert await enqueue(own, key="k", payload=2) == first
    unique = {"key": "reindex-7", "on_conflict": "keep"}
    body = {"destination": {"type": "worker"}, "delay_seconds": 50, "unique": unique, "payload": 2}
    again = await api.call("POST", "/jobs", body, headers={"Idempotency-Key": "k"})
    assert again.status == 200, again.body
    assert again.body["job_id"] == first
    assert await waiting(api) == 0


async def test_replace_does_not_move_a_job_elsewhere(own: asyncpg.Connection) -> None:
    await enqueue(own)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(own, "replace", lane="other")
    assert refusal(refused.value)["code"] == "conflict"
    assert refusal(refused.value)["field"] == "lane"


async def test_many_transactions_at_once_make_one_waiting_job(api: Api, role: OwnRole) -> None:
    async def one() -> None:
        async with role.connect() as own:
            for way in ("keep", "replace"):
                await enqueue(own, way)

    await asyncio.gather(*(one() for _ in range(6)), *(post(api, "replace") for _ in range(20)))
    assert await waiting(api) == 1
