"""A login role of a client, bound to a tenant, with connections of its own."""

import itertools
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from conftest import admin, app_dsn
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.prover.checker import prove
from postdate.tenant.change.client_role import ClientRoles
from support.api_ledger import Ledger
from support.event import seal_all
from support.event_data import wrong

PASSWORD = "of-the-tests"
_numbers = itertools.count(1)


@dataclass
class OwnRole:
    """A role that may log in, and how."""

    name: str
    dsn: str

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a connection as this role."""
        connection = await asyncpg.connect(self.dsn, user=self.name, password=PASSWORD)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def own_role(
    server: Embedded, database_name: str, database: Database, tenant: str | None, **limits: Any
) -> AsyncIterator[OwnRole]:
    """Make a login role, bind it to a tenant (or to none), and drop it afterwards."""
    name = f"own_{os.getpid()}_{next(_numbers)}"
    await admin(server, f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    if tenant is not None:
        assert await ClientRoles(database).bind(name, tenant, **limits) is None
    yield OwnRole(name, app_dsn(server, database_name))
    if tenant is not None:
        await ClientRoles(database).unbind(name)
    await admin(server, f"DROP ROLE {name}")


def refusal(error: asyncpg.PostgresError) -> dict[str, Any]:
    """Return the code and the field of a refusal."""
    found: dict[str, Any] = json.loads(error.detail or "{}")
    return found


WORKER = '{"type": "worker"}'
ENQUEUE = "SELECT postdate.enqueue($1, payload => $2, lane => $3, idempotency_key => $4)"
PAY = """SELECT postdate.schedule_payment('alice', 'bob', $1, $2, delay_seconds => 60,
                                          funding => $3)"""


async def enqueue(
    own: asyncpg.Connection, name: str | None = None, payload: Any = "hello", lane: str = "default"
) -> UUID:
    found: UUID = await own.fetchval(ENQUEUE, WORKER, json.dumps(payload), lane, name)
    return found


async def pay(
    own: asyncpg.Connection, amount: int = 100, name: str = "", funding: str = "hold"
) -> UUID:
    found: UUID = await own.fetchval(PAY, amount, name or str(uuid4()), funding)
    return found


async def status(ledger: Ledger, path: str) -> Any:
    answer = await ledger.api.call("GET", path)
    return answer.body.get("status") if answer.status == 200 else answer.status


async def all_is_proved(ledger: Ledger) -> None:
    """Seal and prove: chain, ledger, jobs and keys; all events say what is declared."""
    await seal_all(ledger.api.node.database, 500)
    events = (await ledger.api.call("GET", "/events?limit=100")).body["events"]
    assert [each for event in events for each in wrong(event["type"], event["data"])] == []
    proof = await prove(ledger.api.node.database, ledger.tenant_id)
    assert proof.findings == [], proof.findings
