"""No operation answers 500 in any state a table can be in: a table of states and operations."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import asyncpg
import pytest

from conftest import INTERNAL_TOKEN, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.database.embedded import Embedded
from postdate.http.route_table import parameters_of
from postdate.tenant.change.tenant import Tenants
from support.full_tenant import ROWS, FullTenant, build

TABLES: Final = (
    "timer", "payment", "job", "outcome", "attempt", "event", "account", "transfer", "lane",
    "payment_approval", "schedule", "schedule_version", "occurrence", "subscription",
    "destination", "change_set", "idempotency", "seal", "outbox", "chain", "job_revision",
    "job_unique",
)  # fmt: skip

_OUTCOME: Final = (
    "INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at, code) "
    "SELECT bucket, tenant_id, subject, 1, '{}', clock(), clock(), 'x' FROM timer "
    "WHERE tenant_id = $1 AND lane_id {} ON CONFLICT DO NOTHING"
)
_TIMER: Final = (
    "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) "
    "SELECT {0}.bucket, {0}.tenant_id, {1}, {2}, clock() FROM {0} WHERE {0}.tenant_id = $1 "
    "ON CONFLICT (bucket, subject) DO UPDATE SET lane_id = excluded.lane_id"
)
STATES: Final = {f"no {table}": f"DELETE FROM {table} WHERE tenant_id = $1" for table in TABLES} | {
    "nothing is held": "UPDATE account SET held = 0 WHERE tenant_id = $1",
    "an open payment has failed": _OUTCOME.format("FAILED", "< 16"),
    "an open payment is completed": _OUTCOME.format("COMPLETED", "< 16"),
    "an open job has failed": _OUTCOME.format("FAILED", ">= 16"),
    "an open job is cancelled": _OUTCOME.format("CANCELLED", ">= 16"),
    "an ended job has a timer": _TIMER.format("outcome", 16, "subject"),
    "a payment waits in the lane of a job": _TIMER.format("payment", 16, "payment_id"),
    "a job waits in the lane of payments": _TIMER.format("job", 0, "job_id"),
    "attempts that nobody made": "INSERT INTO attempt (bucket, tenant_id, subject, attempt, status,"
    " due_at, started_at, finished_at, code) SELECT bucket, tenant_id, subject, token + 1, 'LOST', "
    "clock(), clock(), clock(), 'x' FROM timer WHERE tenant_id = $1 AND token < 9 "
    "ON CONFLICT DO NOTHING",
    "changes that nobody made": "INSERT INTO job_revision (bucket, tenant_id, job_id, revision, "
    "due_at, effective_at, payload_revision, lane_id) SELECT bucket, tenant_id, job_id, 1, "
    "clock(), clock(), 0, lane_id FROM job WHERE tenant_id = $1",
    "approvals that nobody asked for": "INSERT INTO payment_approval (bucket, tenant_id, "
    "payment_id, requested_by, requested_persons, expires_at) SELECT bucket, tenant_id, "
    "payment_id, 'x', '{x}', clock() "
    "FROM payment WHERE tenant_id = $1 ON CONFLICT DO NOTHING",
}

IN_SHORT: Final = {
    "no timer", "no payment", "no job", "no account", "no lane", "nothing is held",
    "an open payment is completed", "an open job has failed",
}  # fmt: skip
"""The states that each run tries; a soak tries all of them."""

APART: Final = ("/keys", "/settings", "/halts", "/kill-switch", "/freeze", "/internal/tenants")
APART_TOO: Final = ("/calendars", "/test-clock", "/foresight", "/whoami", "/receipt-keys")
"""What has to do with none of these tables."""


@dataclass
class Broken:
    """A tenant with one of everything, and somebody who breaks it and puts it together again."""

    api: Api
    full: FullTenant
    tenant_id: int
    vandal: asyncpg.Connection

    async def keep(self) -> None:
        for table in TABLES:
            await self.vandal.execute(
                f"CREATE TEMP TABLE kept_{table} AS SELECT * FROM {table} "
                f"WHERE tenant_id = {self.tenant_id}"
            )

    async def bring_back(self) -> None:
        await self.vandal.execute(
            ";".join(
                f"DELETE FROM {table} WHERE tenant_id = {self.tenant_id};"
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept_{table}"
                for table in TABLES
            )
        )

    async def call(self, name: str) -> tuple[int, object]:
        method, path = name.split(" ")
        row = ROWS[name]
        for parameter, is_uuid in parameters_of(path):
            given = getattr(self.full, row.thing)
            path = path.replace(f"{{{parameter}:uuid}}" if is_uuid else f"{{{parameter}}}", given)
        headers = {"Idempotency-Key": str(uuid4()), "X-Internal-Auth": INTERNAL_TOKEN}
        body = row.body(self.full) if row.body else None
        answer = await self.api.call(method, path, body, headers=headers)
        return answer.status, answer.body


def operations() -> Iterator[str]:
    for endpoint in ENDPOINTS:
        if not endpoint.path.startswith(APART + APART_TOO):
            yield f"{endpoint.method} {endpoint.path}"


@pytest.fixture(scope="module")
async def broken(edge_server: Api, server: Embedded, database_name: str) -> AsyncIterator[Broken]:
    tenants = Tenants(edge_server.node.database)
    await tenants.create("broken")
    api = replace(edge_server, tenant="broken", key=(await tenants.issue("broken", ["admin"])).key)
    full = await build(api)
    vandal = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    await vandal.execute("SET search_path = postdate; SET session_replication_role = replica")
    tenant_id = await vandal.fetchval("SELECT tenant_id FROM tenant WHERE name = 'broken'")
    made = Broken(api, full, tenant_id, vandal)
    await made.keep()
    yield made
    await vandal.close()


@pytest.mark.parametrize(
    "state",
    [pytest.param(e, marks=[] if e in IN_SHORT else pytest.mark.soak) for e in STATES],
)
async def test_no_operation_breaks_in(broken: Broken, state: str) -> None:
    wrong = {}
    for number, name in enumerate(sorted(operations(), key=lambda each: each[:3] != "GET")):
        if number == 0 or not name.startswith("GET "):
            await broken.bring_back()
            await broken.vandal.execute(STATES[state], broken.tenant_id)
        status, body = await broken.call(name)
        if status == 500:
            wrong[name] = body
    await broken.bring_back()
    assert wrong == {}
