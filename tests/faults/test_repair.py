"""An account that somebody has changed by hand is put right: by two persons, and as a fact."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from conftest import Api, Clock
from postdate.account.change.repair import Repairs
from postdate.account.store import account as account_store
from postdate.account.store import repair as repair_store
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.database.embedded import Embedded
from postdate.event.store import event as event_store
from postdate.key.authentication.identity import Identities
from postdate.prover.checker import prove
from postdate.prover.prover import Prover
from postdate.words.error import Code, RefusedError
from support.api_ledger import Ledger, open_ledger
from support.bank import drain, settler
from support.event import seal_all


@dataclass
class Office:
    """A ledger, two persons who may repair it, and somebody who may write anything."""

    ledger: Ledger
    vandal: asyncpg.Connection
    first: Identity
    second: Identity

    @property
    def database(self) -> Database:
        return self.ledger.api.node.database

    @property
    def repairs(self) -> Repairs:
        return Repairs(self.database)

    async def spoil(self, change: str, account: str = "alice") -> None:
        await self.vandal.execute(
            f"UPDATE account SET {change} WHERE tenant_id = $1 AND account_id = $2",
            self.ledger.tenant_id,
            account,
        )

    async def found(self) -> set[str]:
        await seal_all(self.database, 500)
        proof = await prove(self.database, self.ledger.tenant_id)
        return {each.check for each in proof.findings}

    async def repair(self, account: str = "alice") -> None:
        await self.repairs.request(self.first, account, "ticket 1")
        await self.repairs.approve(self.second, account)


@pytest.fixture
async def office(
    api: Api, server: Embedded, database_name: str, clock: Clock
) -> AsyncIterator[Office]:
    ledger = await open_ledger(api)
    who = []
    for _ in range(2):
        found = await Identities(api.node.database).authenticate(await api.new_key("ledger:adjust"))
        assert found is not None
        who.append(found)
    await ledger.order(delay_seconds=10)
    await ledger.order(amount=5, delay_seconds=86400)
    await clock.advance(20)
    await drain(settler(api.node.database))
    vandal = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    await vandal.execute("SET search_path = postdate; SET session_replication_role = replica")
    yield Office(ledger, vandal, *who)
    await vandal.close()


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ("balance = balance + 5", "balance_is_its_entries"),
        ("held = held + 7", "held_is_open_payments"),
        ("version = version + 2", "balance_is_its_entries"),
        ("balance = balance - 1, held = 0, version = version - 1", "balance_is_its_entries"),
    ],
)
async def test_stored_numbers_go_back_to_what_the_entries_say(
    office: Office, change: str, finding: str
) -> None:
    assert await office.found() == set()
    before = await office.ledger.account("alice")
    await office.spoil(change)
    assert finding in await office.found()
    told = await office.repairs.look(office.first, "alice")
    assert told.is_needed
    assert finding in await office.found(), "a look writes nothing"
    await office.repair()
    after = await office.ledger.account("alice")
    assert {n: after[n] for n in ("balance", "held", "version")} == {
        n: before[n] for n in ("balance", "held", "version")
    }
    assert await office.found() == set()
    proof = await prove(office.database, office.ledger.tenant_id)
    [made] = proof.repairs
    assert (made.account_id, made.requested_by, made.approved_by, made.reason) == (
        "alice",
        office.first.key_id,
        office.second.key_id,
        "ticket 1",
    )


async def test_payments_on_top_of_a_wrong_balance_hide_nothing(
    office: Office, clock: Clock
) -> None:
    prover = Prover(office.database, Settings())
    bucket = account_store.key_of(office.ledger.tenant_id, "alice").bucket

    async def looked() -> set[str]:
        await seal_all(office.database, 500)
        found = await prover.prove_bucket(bucket)
        return {f.check for f in found if f.tenant_id == office.ledger.tenant_id}

    async def pay() -> None:
        await office.ledger.order(amount=3, delay_seconds=10)
        await clock.advance(20)
        await drain(settler(office.database))

    assert await looked() == set()
    await office.spoil("balance = balance + 5")
    await pay()
    assert "balance_follows_entries" in await looked()
    assert "versions_have_no_gaps" in await office.found()
    await office.repair()
    assert await office.found() == set()
    assert await looked() == set()
    await pay()
    assert await office.found() == set()
    assert await looked() == set()


async def test_one_person_is_not_two(office: Office) -> None:
    await office.spoil("balance = balance + 5")
    with pytest.raises(RefusedError) as nobody:
        await office.repairs.approve(office.second, "alice")
    assert nobody.value.refusal.code is Code.CONFLICT
    await office.repairs.request(office.first, "alice", "ticket 1")
    with pytest.raises(RefusedError) as alone:
        await office.repairs.approve(office.first, "alice")
    assert alone.value.refusal.code is Code.APPROVAL_BY_REQUESTER
    await office.spoil("balance = balance + 1")
    with pytest.raises(RefusedError) as other:
        await office.repairs.approve(office.second, "alice")
    assert other.value.refusal.code is Code.CONFLICT
    assert "balance_is_its_entries" in await office.found()


async def test_a_forged_repair_is_named(office: Office) -> None:
    await office.spoil("balance = balance + 5")
    await office.vandal.execute(
        "INSERT INTO account_repair (bucket, tenant_id, account_id, version, balance, held, "
        "version_before, balance_before, held_before, jumps, requested_by, approved_by, reason) "
        "SELECT bucket, tenant_id, account_id, version, balance, held, version, balance, held, "
        "'[]', 'x', 'y', 'z' FROM account WHERE tenant_id = $1 AND account_id = 'alice'",
        office.ledger.tenant_id,
    )
    assert "repair_is_as_sealed" in await office.found()


async def test_a_repair_that_is_cut_off_leaves_nothing_behind(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.spoil("balance = balance + 5")
    await office.repairs.request(office.first, "alice", "ticket 1")
    for module, name in (
        (account_store, "write"),
        (repair_store, "insert"),
        (event_store, "insert"),
    ):
        whole = getattr(module, name)

        async def cut(connection: Any, *arguments: Any, whole: Any = whole) -> None:
            await whole(connection, *arguments)
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            await office.vandal.execute("SELECT pg_terminate_backend($1, 5000)", pid)

        with monkeypatch.context() as patch:
            patch.setattr(module, name, cut)
            with pytest.raises(DatabaseError):
                await office.repairs.approve(office.second, "alice")
        assert "balance_is_its_entries" in await office.found()
    await office.repairs.approve(office.second, "alice")
    assert await office.found() == set()


async def test_settlement_goes_on_beside_a_repair(office: Office, clock: Clock) -> None:
    for _ in range(40):
        await office.ledger.order(amount=1, delay_seconds=10)
        await office.ledger.order(amount=1, delay_seconds=10, to_account_id="carol")
    await office.spoil("balance = balance + 5, held = held + 3")
    await office.repairs.request(office.first, "alice", "ticket 1")
    await clock.advance(20)
    one = settler(office.database, 4)
    settled, _ = await asyncio.gather(drain(one, 4), office.repairs.approve(office.second, "alice"))
    assert settled == 80
    assert await office.found() == set()
    alice = await office.ledger.account("alice")
    assert (alice["balance"], alice["held"]) == (1000 - 100 - 80, 5)
