"""Your own transaction: committed means scheduled, rolled back means never there."""

import asyncio
import contextlib
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.tenant.change.quota import PendingCounts
from support.api_ledger import Ledger, key, open_ledger
from support.own_transaction import (
    ENQUEUE,
    PASSWORD,
    PAY,
    WORKER,
    OwnRole,
    all_is_proved,
    enqueue,
    own_role,
    pay,
    refusal,
    status,
)


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


async def test_committed_means_scheduled(ledger: Ledger, own: asyncpg.Connection) -> None:
    async with own.transaction():
        job_id = await enqueue(own, payload={"to": "ann"})
        payment_id = await pay(own)
        assert await status(ledger, f"/jobs/{job_id}") == 404
        assert await ledger.held() == 0  # nobody waits for a long transaction
    job = (await ledger.api.call("GET", f"/jobs/{job_id}?payload=true")).body
    assert (job["status"], job["lane"]) == ("READY", "default")
    assert await status(ledger, f"/payments/{payment_id}") == "PENDING"
    assert await ledger.held() == 100


async def test_rolled_back_means_never_scheduled(ledger: Ledger, own: asyncpg.Connection) -> None:
    before = await ledger.rows()
    transaction = own.transaction()
    await transaction.start()
    job_id, payment_id = await enqueue(own, "once"), await pay(own, name="once")
    await transaction.rollback()
    assert await ledger.rows() == before
    assert await status(ledger, f"/jobs/{job_id}") == 404
    assert await status(ledger, f"/payments/{payment_id}") == 404
    assert await ledger.held() == 0


async def test_a_savepoint_takes_back_its_part(ledger: Ledger, own: asyncpg.Connection) -> None:
    async with own.transaction():
        kept = await enqueue(own)
        with contextlib.suppress(ZeroDivisionError):
            async with own.transaction():
                gone, unpaid = await enqueue(own), await pay(own)
                raise ZeroDivisionError
        paid = await pay(own, 30)
    assert await status(ledger, f"/jobs/{kept}") == "READY"
    assert await status(ledger, f"/jobs/{gone}") == 404
    assert await status(ledger, f"/payments/{unpaid}") == 404
    assert await status(ledger, f"/payments/{paid}") == "PENDING"
    assert await ledger.held() == 30


async def test_one_statement_is_a_transaction_too(ledger: Ledger, own: asyncpg.Connection) -> None:
    assert await status(ledger, f"/jobs/{await enqueue(own)}") == "READY"


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_other_isolation_levels_work(
    ledger: Ledger, own: asyncpg.Connection, isolation: Any
) -> None:
    async with own.transaction(isolation=isolation):
        job_id, payment_id = await enqueue(own), await pay(own, 10)
    assert await status(ledger, f"/jobs/{job_id}") == "READY"
    assert await status(ledger, f"/payments/{payment_id}") == "PENDING"


async def test_a_conflict_at_repeatable_read_is_one_to_repeat(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    transaction = own.transaction(isolation="repeatable_read")
    await transaction.start()
    await pay(own, 10)
    assert (await ledger.order(amount=5)).status == 201
    with pytest.raises(asyncpg.SerializationError):
        await transaction.commit()
    assert await ledger.held() == 5


async def test_a_key_is_answered_once_within_and_across_transactions(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    async with own.transaction():
        first = await enqueue(own, "k", {"a": 1})
        assert await enqueue(own, "k", {"a": 1}) == first
        with pytest.raises(asyncpg.PostgresError) as refused:
            async with own.transaction():
                await enqueue(own, "k", {"a": 2})
        assert refusal(refused.value) == {
            "code": "idempotency_key_reused",
            "field": "payload",
            "differs": ["payload"],
        }
        paid = await pay(own, 10, "p")
        assert await pay(own, 10, "p") == paid
    assert await enqueue(own, "k", {"a": 1}) == first
    assert await pay(own, 10, "p") == paid
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pay(own, 11, "p")
    assert refusal(refused.value)["differs"] == ["amount"]
    assert await ledger.held() == 10


async def test_http_repeats_what_sql_has_made(ledger: Ledger, own: asyncpg.Connection) -> None:
    job_id, payment_id = await enqueue(own, "shared", {"a": [1, 2]}), await pay(own, 10, "shared")
    body = {"destination": {"type": "worker"}, "payload": {"a": [1, 2]}}
    again = await ledger.api.call("POST", "/jobs", body, headers=key("shared"))
    assert (again.status, again.body["job_id"]) == (201, str(job_id))
    assert again.headers["idempotency-replayed"] == "true"
    other = await ledger.api.call("POST", "/jobs", body | {"payload": 0}, headers=key("shared"))
    assert (other.status, other.body["differs"]) == (422, ["payload"])
    paid = await ledger.order("shared", amount=10)
    assert (paid.status, paid.body["payment_id"]) == (201, str(payment_id))
    more = await ledger.order("shared", amount=11)
    assert (more.status, more.body["differs"]) == (422, ["amount"])
    assert await ledger.held() == 10


async def test_sql_repeats_what_http_has_made(ledger: Ledger, own: asyncpg.Connection) -> None:
    body = {"destination": {"type": "worker"}, "payload": {"a": [1, 2]}}
    made = await ledger.api.call("POST", "/jobs", body, headers=key("web"))
    assert str(await enqueue(own, "web", {"a": [1, 2]})) == made.body["job_id"]
    paid = await ledger.order("web", amount=10)
    assert str(await pay(own, 10, "web")) == paid.body["payment_id"]
    for differs in (enqueue(own, "web", 0), pay(own, 10, "web", "at_execution")):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await differs
        assert refusal(refused.value)["code"] == "idempotency_key_reused"
    assert await ledger.held() == 10


async def test_a_refusal_that_http_remembers_is_given_again(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    assert (await ledger.order("poor", amount=5000)).body["code"] == "insufficient_funds"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pay(own, 5000, "poor")
    assert refusal(refused.value)["code"] == "insufficient_funds"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pay(own, 10, "poor")
    assert refusal(refused.value)["differs"] == ["amount"]


async def test_of_two_transactions_with_one_key_one_is_repeated(
    ledger: Ledger, role: OwnRole, own: asyncpg.Connection
) -> None:
    async with role.connect() as other:
        second = other.transaction()
        await second.start()
        await enqueue(other, "race", {"a": 1})
        async with own.transaction():
            first = await enqueue(own, "race", {"a": 1})
        with pytest.raises(asyncpg.SerializationError) as refused:
            await second.commit()
        assert refusal(refused.value)["code"] == "idempotency_in_flight"
        async with other.transaction():
            assert await enqueue(other, "race", {"a": 1}) == first
    assert await status(ledger, f"/jobs/{first}") == "READY"


async def test_new_lanes_are_made_once(ledger: Ledger, own: asyncpg.Connection) -> None:
    async with own.transaction():
        jobs = [await enqueue(own, lane="fresh") for _ in range(5)]
    await ledger.api.node.lanes.refresh()
    body = {"max": 10, "lease_seconds": 5}
    leased = (await ledger.api.call("POST", "/lanes/fresh/claim", body)).body["leases"]
    assert {each["job_id"] for each in leased} == {str(each) for each in jobs}
    assert {each["payload"] for each in leased} == {"hello"}


async def test_the_second_kind_of_a_lane_takes_over_its_pause(
    ledger: Ledger, own: asyncpg.Connection, database: Database
) -> None:
    push = {"destination": {"type": "webhook", "url": "https://example.com/"}, "lane": "mail"}
    assert (await ledger.api.call("POST", "/jobs", push | {"delay_seconds": 60})).status == 201
    assert (await ledger.api.call("POST", "/lanes/mail/pause", {"note": "holiday"})).status == 200
    async with own.transaction():
        await enqueue(own, lane="mail")
    found = await database.writer.fetch(
        "SELECT paused_at, paused_note, paused_by FROM lane l JOIN tenant t USING (tenant_id) "
        "WHERE t.name = $1 AND l.name = 'mail'",
        ledger.api.tenant,
    )
    assert len(found) == 2
    assert found[0] == found[1]
    assert found[0]["paused_by"]


async def test_funds_are_decided_when_the_transaction_commits(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    transaction = own.transaction()
    await transaction.start()
    job_id = await enqueue(own)
    await pay(own, 900)
    with pytest.raises(asyncpg.PostgresError) as refused:
        async with own.transaction():
            await pay(own, 101)  # sees what this very transaction has asked for
    assert refusal(refused.value)["available"] == 100
    assert (await ledger.order(amount=500)).status == 201  # nobody waits for the transaction
    with pytest.raises(asyncpg.PostgresError) as refused:
        await transaction.commit()
    assert refusal(refused.value)["code"] == "insufficient_funds"
    assert await status(ledger, f"/jobs/{job_id}") == 404
    assert await ledger.held() == 500


async def test_payer_and_payee_have_one_currency(ledger: Ledger, own: asyncpg.Connection) -> None:
    await ledger.api.call("POST", "/accounts", {"account_id": "eva", "currency": "EUR"})
    with pytest.raises(asyncpg.PostgresError) as refused:
        await own.execute(
            "SELECT postdate.schedule_payment('alice', 'eva', 1, 'k', delay_seconds => 9)"
        )
    told = refusal(refused.value)
    assert (told["code"], told["currencies"]) == ("currency_mismatch", [None, "EUR"])
    assert await ledger.held() == 0


async def test_a_halted_tenant_accepts_nothing(
    ledger: Ledger, own: asyncpg.Connection, database: Database
) -> None:
    halting = Halting(database, Halts())
    transaction = own.transaction()
    await transaction.start()
    await enqueue(own)
    await halting.kill(ledger.tenant_id, "test", "cli")  # does not wait for the open transaction
    with pytest.raises(asyncpg.PostgresError) as refused:
        await transaction.commit()
    assert refusal(refused.value)["code"] == "tenant_halted"
    with pytest.raises(asyncpg.PostgresError) as refused:
        await pay(own)
    assert refusal(refused.value)["code"] == "tenant_halted"
    await halting.lift(ledger.tenant_id, "kill", "cli")
    assert await status(ledger, f"/jobs/{await enqueue(own)}") == "READY"


async def test_a_commit_beyond_the_quota_is_refused(
    ledger: Ledger, own: asyncpg.Connection, database: Database
) -> None:
    await ledger.api.call("PUT", "/settings/quota.pending_jobs", {"value": 2})
    await ledger.api.node.refresh_settings()
    await enqueue(own)
    transaction = own.transaction()
    await transaction.start()
    await enqueue(own)
    await enqueue(own)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await transaction.commit()
    assert refusal(refused.value) == {"code": "quota_exceeded", "quota": 2}
    await PendingCounts(database, ledger.api.node.quotas).run_once()
    await enqueue(own)
    with pytest.raises(asyncpg.PostgresError):
        await enqueue(own)


async def test_a_large_payment_waits_for_a_second_person(
    ledger: Ledger, own: asyncpg.Connection
) -> None:
    await ledger.api.call("PUT", "/settings/payment.approval_above", {"value": 50})
    await ledger.api.node.refresh_settings()
    async with own.transaction():
        small, large = await pay(own, 10), await pay(own, 60)
    seen = (await ledger.api.call("GET", f"/payments/{large}")).body
    assert seen["approval"]["requested_by"].startswith("role:")
    assert "approval" not in (await ledger.api.call("GET", f"/payments/{small}")).body
    second = await ledger.api.new_key("payments:approve")
    answer = await ledger.api.call("POST", f"/payments/{large}/approve", {}, key=second)
    assert answer.status == 200, answer
    withdrawn = await pay(own, 70)
    await own.execute("SELECT postdate.cancel($1)", withdrawn)
    assert await status(ledger, f"/payments/{withdrawn}") == "CANCELLED"
    assert await ledger.held() == 70


async def test_cancel_ends_at_the_commit(ledger: Ledger, own: asyncpg.Connection) -> None:
    job_id, payment_id = await enqueue(own), await pay(own, 100)
    transaction = own.transaction()
    await transaction.start()
    await own.execute("SELECT postdate.cancel($1)", job_id)
    await own.execute("SELECT postdate.cancel($1)", payment_id)
    again = await pay(own, 1000 - 100)
    taken_back = await enqueue(own, "fleeting")
    await own.execute("SELECT postdate.cancel($1)", taken_back)
    assert await status(ledger, f"/jobs/{job_id}") == "READY"
    await transaction.commit()
    assert await status(ledger, f"/jobs/{job_id}") == "CANCELLED"
    assert await status(ledger, f"/payments/{payment_id}") == "CANCELLED"
    assert await status(ledger, f"/jobs/{taken_back}") == 404
    assert await status(ledger, f"/payments/{again}") == "PENDING"
    assert await ledger.held() == 900
    await own.execute("SELECT postdate.cancel($1)", job_id)  # once more is no mistake


async def test_a_client_that_is_killed_before_its_commit_leaves_nothing(
    ledger: Ledger, role: OwnRole, own: asyncpg.Connection
) -> None:
    before = await ledger.rows()
    program = textwrap.dedent(f"""
        import asyncio, asyncpg
        async def run():
            own = await asyncpg.connect({role.dsn!r}, user={role.name!r}, password={PASSWORD!r})
            await own.execute("BEGIN")
            print(await own.fetchval({ENQUEUE!r}, {WORKER!r}, "1", "default", "killed"), flush=True)
            print(await own.fetchval({PAY!r}, 100, "killed", "hold"), flush=True)
            await asyncio.sleep(60)
        asyncio.run(run())
    """)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    for _ in range(2):
        UUID((await child.stdout.readline()).decode().strip())
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()
    assert await ledger.rows() == before
    assert await ledger.held() == 0
    await pay(own, 100, "killed")  # the key is free
    assert await ledger.held() == 100


async def test_everything_is_sealed_and_proved(ledger: Ledger, own: asyncpg.Connection) -> None:
    async with own.transaction():
        await enqueue(own, "proved", {"a": 1})
        await enqueue(own)
        await pay(own, 10, "proved")
        gone = await pay(own, 20)
    await own.execute("SELECT postdate.cancel($1)", gone)
    await own.execute("SELECT postdate.cancel($1)", await enqueue(own))
    await all_is_proved(ledger)
