"""What a client's SQL cannot do: escape a limit, or mean something else than over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime
from uuid import uuid4

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.tenant.change.client_role import ClientRoles
from postdate.tenant.change.tenant import Tenants
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import (
    WORKER,
    OwnRole,
    all_is_proved,
    enqueue,
    own_role,
    pay,
    refusal,
    status,
)

WEBHOOK = '{"type": "webhook", "url": "http://user@example/x"}'


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def role(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        yield role


@pytest.fixture
async def own(role: OwnRole) -> AsyncIterator[asyncpg.Connection]:
    async with role.connect() as connection:
        yield connection


async def refused_code(own: asyncpg.Connection, statement: str, *given: object) -> tuple[str, str]:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await own.execute(statement, *given)
    found = refusal(refused.value)
    return found["code"], found.get("field", "")


def nested(levels: int) -> str:
    return "[" * levels + '"}]\\"[[["' + "]" * levels


async def test_json_nests_no_deeper_than_over_http(ledger: Ledger, own: asyncpg.Connection) -> None:
    """A list of jobs could not be read any more for one job's metadata."""
    payload = "SELECT postdate.enqueue($1, payload => $2)"
    metadata = "SELECT postdate.enqueue($1, metadata => $2)"
    await own.execute(payload, WORKER, nested(31))
    await own.execute(metadata, WORKER, f'{{"a": {nested(30)}}}')
    deep = f'{{"a": {nested(1500)}}}'
    assert await refused_code(own, payload, WORKER, nested(32)) == ("body_too_deep", "payload")
    assert await refused_code(own, metadata, WORKER, deep) == ("body_too_deep", "metadata")
    assert (await ledger.api.call("GET", "/jobs")).status == 200


async def test_no_setting_of_a_session_changes_a_number_or_a_pattern(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    await own.execute("SET extra_float_digits = -15; SET standard_conforming_strings = off")
    job_id = await own.fetchval("SELECT postdate.enqueue($1, delay_seconds => 123456)", WORKER)
    seen = (await ledger.api.call("GET", f"/jobs/{job_id}")).body
    waits = datetime.fromisoformat(seen["due_at"]) - datetime.fromisoformat(seen["created_at"])
    assert waits.total_seconds() == 123456
    assert await status(ledger, f"/jobs/{await enqueue(own)}") == "READY"
    code = await refused_code(own, "SELECT postdate.enqueue($1)", WEBHOOK)
    assert code == ("target_not_allowed", "destination.url")
    await all_is_proved(ledger)


@pytest.mark.parametrize("instant", ["infinity", "-infinity", "2027-06-01 00:00Z BC"])
async def test_an_instant_has_a_year_of_our_era(own: asyncpg.Connection, instant: str) -> None:
    """The year 2027 before our era was taken for 2027, and no end of retries for no retries."""
    pay_at = "SELECT postdate.schedule_payment('alice', 'bob', 1, $1, {})"
    for field, statement, given in (
        ("run_at", f"SELECT postdate.enqueue($1, run_at => '{instant}')", WORKER),
        ("expires_at", f"SELECT postdate.enqueue($1, expires_at => '{instant}')", WORKER),
        ("scheduled_time", pay_at.format(f"scheduled_time => '{instant}'"), uuid4().hex),
        (
            "on_insufficient.retry_until",
            pay_at.format(
                f"delay_seconds => 60, funding => 'at_execution', retry_until => '{instant}'"
            ),
            uuid4().hex,
        ),
    ):
        assert await refused_code(own, statement, given) == ("invalid_field", field)


async def test_a_role_for_payments_drops_its_own_payment(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> None:
    limits = {"scopes": ["payments:write"]}
    bound = own_role(server, database_name, database, ledger.api.tenant, **limits)
    async with bound as limited, limited.connect() as theirs:
        async with theirs.transaction():
            payment_id = await pay(theirs)
            await theirs.execute("SELECT postdate.cancel($1)", payment_id)
    assert await status(ledger, f"/payments/{payment_id}") == 404
    assert await ledger.held() == 0


async def test_one_transaction_makes_no_more_lanes_than_allowed(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    body = {"value": 3}
    answer = await ledger.api.call("PUT", "/settings/job.max_lanes", body)
    assert answer.status == 200, answer.body
    many = "SELECT postdate.enqueue($1, lane => 'lane' || n) FROM generate_series(1, $2::int) n"
    assert await refused_code(own, many, WORKER, 4) == ("too_many_lanes", "lane")
    await own.execute(many, WORKER, 3)


async def test_one_transaction_speaks_for_one_tenant(
    ledger: Ledger, own: asyncpg.Connection, role: OwnRole, database: Database
) -> None:
    """A role that is bound anew in between does not take along what it asked for."""
    other = f"other{uuid4().hex[:8]}"
    await Tenants(database).create(other)
    transaction = own.transaction()
    await transaction.start()
    job_id = await enqueue(own)
    await ClientRoles(database).bind(role.name, other)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await enqueue(own)
    assert refusal(refused.value)["code"] == "conflict"
    await transaction.rollback()
    assert await status(ledger, f"/jobs/{job_id}") == 404


async def test_a_lane_that_a_client_keeps_to_itself_delays_no_other(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    """Whoever needs another new lane, or none, does not wait for a client's open transaction."""
    transaction = own.transaction()
    await transaction.start()
    await enqueue(own, lane="kept")
    await own.execute("SET CONSTRAINTS ALL IMMEDIATE")
    body = {"destination": {"type": "worker"}}
    began = time.monotonic()
    kept, fresh = await asyncio.gather(
        ledger.api.call("POST", "/jobs", body | {"lane": "kept"}),
        ledger.api.call("POST", "/jobs", body | {"lane": "fresh"}),
    )
    assert (kept.status, fresh.status) == (503, 201)
    assert time.monotonic() - began < 1.9, "the usual time of waiting for a lock is two seconds"
    await transaction.rollback()


async def test_a_role_limited_to_accounts_learns_nothing_of_others(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> None:
    api = ledger.api
    for name in ("carol", "dave"):
        await api.call("POST", "/accounts", {"account_id": name})
    theirs = {"from_account_id": "carol", "to_account_id": "dave", "amount": 777}
    theirs |= {"delay_seconds": 60, "funding": "at_execution"}
    headers = {"Idempotency-Key": "rent-2026-12"}
    made = await api.call("POST", "/payments/schedule", theirs, headers=headers)
    assert made.status == 201, made.body
    tenant, limits = api.tenant, {"accounts": ["alice"]}
    async with (
        own_role(server, database_name, database, tenant, **limits) as role,
        role.connect() as own,
    ):
        for amount in (1, 777):
            with pytest.raises(asyncpg.PostgresError) as error:
                await pay(own, amount, "rent-2026-12")
            assert refusal(error.value)["code"] == "idempotency_key_reused"
            assert refusal(error.value)["differs"] == []
        with pytest.raises(asyncpg.PostgresError) as error:
            await enqueue(own)
        assert refusal(error.value)["code"] == "forbidden"
        await pay(own, 1, "own")
        with pytest.raises(asyncpg.PostgresError) as error:
            await pay(own, 2, "own")
        assert refusal(error.value)["differs"] == ["amount"]
