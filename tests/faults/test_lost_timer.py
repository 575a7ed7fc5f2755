"""What has lost its timer is refused with the reason, cancelled, or put back: never paid twice."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from conftest import INTERNAL_TOKEN, Answered, Api, Clock
from postdate.account.change.repair import Repairs
from postdate.cli.repair_lost import repair_lost
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.database.connection.clock import node_clock
from postdate.database.connection.database import Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.database.embedded import Embedded
from postdate.key.authentication.identity import Identities
from postdate.ledger.prove import lost_timers, reconcile_all
from postdate.payment.change.change import PaymentChanges
from postdate.payment.change.put_back import put_back_payment
from postdate.prover.checker import prove
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import RefusedError
from support.api_ledger import Ledger, open_ledger
from support.bank import drain, settler
from support.event import seal_all

INTERNAL = {"X-Internal-Auth": INTERNAL_TOKEN}
REPAIR = "`postdate reconcile --repair`"
WORKER = {"type": "worker"}


@dataclass
class Shop:
    """A ledger, the keys of two persons, and somebody who may delete anything."""

    ledger: Ledger
    vandal: asyncpg.Connection
    keys: list[str]

    @property
    def api(self) -> Api:
        return self.ledger.api

    @property
    def database(self) -> Database:
        return self.api.node.database

    async def identity(self, key: str) -> Identity:
        found = await Identities(self.database).authenticate(key)
        assert found is not None
        return found

    async def pay(self, **changes: Any) -> str:
        return str((await self.ledger.order(**changes)).body["payment_id"])

    async def run(self, **changes: Any) -> str:
        body = {"destination": WORKER, "lane": "shop"} | changes
        return str((await self.api.call("POST", "/jobs", body)).body["job_id"])

    async def timer(self, subject: str) -> Any:
        return await self.vandal.fetchrow("SELECT * FROM timer WHERE subject = $1", UUID(subject))

    async def lose(self, *subjects: str, table: str = "timer") -> None:
        for subject in subjects:
            done = await self.vandal.execute(
                f"DELETE FROM {table} WHERE subject = $1", UUID(subject)
            )
            assert done == "DELETE 1"

    async def repair(self, key: str | None) -> list[str]:
        return [each.done for each in await repair_lost(self.database, self.ledger.tenant_id, key)]

    async def put_back(self) -> None:
        for key in self.keys:
            await self.repair(key)

    async def found(self) -> set[str]:
        await seal_all(self.database, 500)
        proof = await prove(self.database, self.ledger.tenant_id)
        return {each.check for each in proof.findings}

    async def act(self, method: str, path: str, body: Any = None) -> Answered:
        return await self.api.call(method, path, body, headers=INTERNAL)

    async def status(self, path: str) -> str:
        return str((await self.api.call("GET", path)).body["status"])


@pytest.fixture
async def shop(api: Api, server: Embedded, database_name: str) -> AsyncIterator[Shop]:
    ledger = await open_ledger(api)
    keys = [await api.new_key("ledger:adjust") for _ in range(2)]
    vandal = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    await vandal.execute("SET search_path = postdate; SET session_replication_role = replica")
    yield Shop(ledger, vandal, keys)
    await vandal.close()


async def test_calls_on_a_payment_without_timer_name_the_repair(shop: Shop, clock: Clock) -> None:
    payment = await shop.pay()
    await clock.advance(61)
    await shop.lose(payment)
    for method, path, body in (
        ("POST", f"/internal/payments/{payment}/execute", {"execution_id": "x"}),
        ("PATCH", f"/payments/{payment}", {"delay_seconds": 9}),
        ("POST", f"/payments/{payment}/approve", {}),
        ("POST", f"/payments/{payment}/refuse", {}),
    ):
        answer = await shop.act(method, path, body)
        assert (answer.status, answer.body["code"]) == (409, "conflict"), (path, answer.body)
        assert REPAIR in answer.body["detail"]
        assert answer.body["current_status"] == "PENDING"


async def test_a_payment_without_timer_is_cancelled_and_lets_go_of_its_hold(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.lose(payment)
    assert {"payment_is_open_or_ended", "held_is_open_payments"} <= await shop.found()
    for _ in range(2):
        answer = await shop.act("DELETE", f"/payments/{payment}/cancel")
        assert (answer.status, answer.body["status"]) == (200, "CANCELLED")
    assert await shop.ledger.held() == 0
    assert await shop.found() == set()


@pytest.mark.parametrize("ahead_seconds", [0, 5])
async def test_two_persons_put_a_payment_back_and_it_is_paid_once(
    shop: Shop, clock: Clock, ahead_seconds: int
) -> None:
    """The process may have taken the database's time for later than it was, and learn it anew."""
    node_clock.learn(time.time() + ahead_seconds, time.monotonic())
    payment = await shop.pay()
    was = await shop.timer(payment)
    await clock.advance(61)
    await shop.lose(payment)
    assert await shop.repair(None) == ["would be put back"]
    assert await shop.repair("no key") == ["needs a key of its tenant"]
    assert await shop.repair(shop.keys[0]) == ["requested"]
    assert await shop.repair(shop.keys[0]) == ["waits for another person"]
    assert await shop.timer(payment) is None
    assert await shop.repair(shop.keys[1]) == ["put back"]
    assert await shop.timer(payment) == was
    assert await shop.found() == set()
    node_clock.learn(time.time(), time.monotonic())
    await drain(settler(shop.database))
    assert await shop.status(f"/payments/{payment}") == "COMPLETED"
    assert (await shop.ledger.account("bob"))["balance"] == 100
    assert await shop.found() == set()
    told = (await shop.api.call("GET", f"/payments/{payment}/events")).body["events"]
    kinds = ["payment.scheduled", "payment.repair_requested", "payment.repaired"]
    assert [each["type"] for each in told] == [*kinds, "payment.completed"]


async def test_nobody_requests_a_payment_that_is_not_lost(shop: Shop) -> None:
    """A person may read that a payment is lost just before another person puts it back."""
    payment = await shop.pay()
    lost = LostTimer(shop.ledger.tenant_id, UUID(payment), "payment")
    await shop.lose(payment)
    await shop.put_back()
    for key in shop.keys:
        with pytest.raises(RefusedError, match="put back meanwhile"):
            await put_back_payment(shop.database, await shop.identity(key), lost)
    await shop.act("DELETE", f"/payments/{payment}/cancel")
    with pytest.raises(RefusedError, match="has ended"):
        await put_back_payment(shop.database, await shop.identity(shop.keys[0]), lost)


async def test_a_key_without_the_right_puts_no_money_back(shop: Shop) -> None:
    await shop.lose(await shop.pay())
    [done] = await shop.repair(await shop.api.new_key("payments:write"))
    assert done.startswith("refused, ")
    assert "ledger:adjust" in done


async def test_what_was_paid_is_never_paid_again_because_its_outcome_is_lost(
    shop: Shop, clock: Clock
) -> None:
    payment = await shop.pay()
    await clock.advance(61)
    await drain(settler(shop.database))
    cancelled, done = await shop.pay(), await shop.run()
    await shop.act("DELETE", f"/payments/{cancelled}/cancel")
    lease = (await shop.act("POST", "/lanes/shop/claim", {"max": 1})).body["leases"][0]
    await shop.act("POST", f"/leases/{done}/complete", {"token": lease["token"]})
    await shop.lose(payment, cancelled, done, table="outcome")
    told = await shop.repair(shop.keys[0])
    assert sorted(told)[1:] == ["requested", "requested"]
    for step in ("unsealed", "sealed"):
        said = await shop.repair(shop.keys[1])
        assert len(said) == 3, step
        assert all("has ended" in each and "its outcome was lost" in each for each in said), said
        await seal_all(shop.database, 500)
    answer = await shop.act("DELETE", f"/payments/{payment}/cancel")
    assert (answer.status, answer.body["code"]) == (409, "conflict")
    assert (await shop.act("POST", f"/jobs/{done}/cancel")).status == 409
    await drain(settler(shop.database))
    assert (await shop.ledger.account("bob"))["balance"] == 100


async def test_each_payment_comes_back_to_where_it_stood(shop: Shop, clock: Clock) -> None:
    plain, moved = await shop.pay(delay_seconds=7200), await shop.pay(delay_seconds=7200)
    for delay in (300, 5000):
        await shop.act("PATCH", f"/payments/{moved}", {"delay_seconds": delay})
    later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    patient = {"funding": "at_execution", "on_insufficient": {"retry_until": later}}
    retried = await shop.pay(amount=5000, delay_seconds=1, **patient)
    await clock.advance(2)
    await drain(settler(shop.database))
    await shop.api.call("PUT", "/settings/payment.approval_above", {"value": 90})
    await shop.api.node.refresh_settings()
    waits = await shop.pay(amount=95, delay_seconds=7200)
    every = [plain, moved, retried, waits]
    was = {each: await shop.timer(each) for each in every}
    assert was[retried]["token"] == 1
    assert len({row["lane_id"] for row in was.values()}) == 2
    await shop.lose(*every)
    await shop.put_back()
    assert {each: await shop.timer(each) for each in every} == was
    assert await shop.found() == set()


async def test_cancel_and_two_persons_at_once_end_a_payment_once(shop: Shop) -> None:
    persons = [await shop.identity(key) for key in (*shop.keys, shop.api.key)]
    changes = PaymentChanges(shop.database, Settings())
    for turn in range(5):
        lost = LostTimer(shop.ledger.tenant_id, UUID(await shop.pay()), "payment")
        await shop.lose(str(lost.subject))
        assert await put_back_payment(shop.database, persons[0], lost) == "requested"
        work = [put_back_payment(shop.database, persons[1], lost) for _ in range(2)]
        cancels = [changes.cancel(persons[2], lost.subject) for _ in range(2)]
        both = [*work, *cancels] if turn % 2 else [*cancels, *work]
        ended = await asyncio.gather(*both, return_exceptions=True)
        # Whoever waits too long for a lock is told to come again, and has changed nothing.
        told = (RefusedError, LockNotAvailableError)
        strange = [
            each for each in ended if each not in {None, "put back"} and not isinstance(each, told)
        ]
        assert strange == []
        await changes.cancel(persons[2], lost.subject)
        assert await shop.timer(str(lost.subject)) is None
        assert await shop.ledger.held() == 0
    assert await shop.found() == set()


async def test_an_account_is_not_repaired_around_a_lost_payment(shop: Shop) -> None:
    payment = await shop.pay()
    await shop.lose(payment)
    with pytest.raises(RefusedError, match=payment):
        await Repairs(shop.database).look(await shop.identity(shop.keys[0]), "alice")


async def test_calls_on_a_job_without_timer_name_the_repair(shop: Shop) -> None:
    job = await shop.run(delay_seconds=600)
    await shop.lose(job)
    for method, path, body in (
        ("POST", f"/jobs/{job}/run-now", None),
        ("PATCH", f"/jobs/{job}", {"delay_seconds": 9}),
        ("POST", f"/jobs/{job}/resolve", {"outcome": "completed"}),
    ):
        answer = await shop.act(method, path, body)
        assert (answer.status, answer.body["current_status"]) == (409, "PENDING")
        assert REPAIR in answer.body["detail"]
    answer = await shop.act("POST", f"/jobs/{job}/cancel")
    assert (answer.status, answer.body["result"]) == (200, "cancelled_before_claim")
    assert await shop.found() == set()


async def test_a_job_that_waited_comes_back_as_it_was(shop: Shop) -> None:
    plain, moved = await shop.run(delay_seconds=600), await shop.run(delay_seconds=600)
    await shop.act("PATCH", f"/jobs/{moved}", {"delay_seconds": 900})
    was = {each: await shop.timer(each) for each in (plain, moved)}
    await shop.lose(plain, moved)
    named = {each.subject for each in await reconcile_all(shop.database, shop.ledger.tenant_id)}
    assert {plain, moved} <= named
    assert await shop.repair("") == ["put back", "put back"]
    assert {each: await shop.timer(each) for each in was} == was
    assert await lost_timers(shop.database, shop.ledger.tenant_id) == []
    assert await shop.found() == set()


async def test_a_job_that_may_have_run_comes_back_in_doubt(shop: Shop) -> None:
    once = await shop.run(retry={"on_unknown": "hold", "max_attempts": 3})
    await shop.lose(once)
    assert await shop.repair("") == ["put back"]
    assert await shop.found() == set()
    assert (await shop.act("POST", "/lanes/shop/claim", {"max": 1})).body["leases"] == []
    assert await shop.status(f"/jobs/{once}") == "UNKNOWN"
    await shop.lose(once)
    await shop.repair("")
    assert (await shop.act("POST", "/lanes/shop/claim", {"max": 1})).body["leases"] == []
    assert await shop.status(f"/jobs/{once}") == "UNKNOWN", "it is in doubt again"
    again = await shop.run(retry={"max_attempts": 3})
    await shop.lose(again)
    await shop.repair("")
    [lease] = (await shop.act("POST", "/lanes/shop/claim", {"max": 1})).body["leases"]
    assert (lease["job_id"], lease["attempt"]) == (again, 2)
    cancelled = await shop.run()
    await shop.lose(cancelled)
    answer = await shop.act("POST", f"/jobs/{cancelled}/cancel")
    assert (answer.status, answer.body["result"]) == (200, "stopped_in_flight")
