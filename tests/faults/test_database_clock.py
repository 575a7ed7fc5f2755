"""The database's own clock is wrong, by libfaketime: nothing is early, ends or happens twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from conftest import app_dsn, eventually, owner_dsn, scratch
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove
from postdate.runtime.loop import Loop
from postdate.schema import migrate
from postdate.settlement.settler import MAX_LOOK, Settler
from support.bank import Bank, DuePayment, settings
from support.clock_leap import leap_changes_nothing, running_node
from support.pause import wait_out
from support.receiver import Receiver
from support.worker import make_tenant

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
PAYMENTS = 40
END_SECONDS = 60.0

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not here (Debian: faketime)"),
]


class WrongClock:
    """The file that libfaketime reads; what stands in it is added to the time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shift("+0")

    def shift(self, by: str) -> None:
        """Show the database another time from now on."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{by}\n")
        new.chmod(0o644)
        new.rename(self._path)


@pytest.fixture
async def directory() -> AsyncIterator[Path]:
    with scratch() as made:
        made.chmod(0o755)
        yield made


@pytest.fixture
def wrong(directory: Path, monkeypatch: pytest.MonkeyPatch) -> WrongClock:
    """A clock below the server that can be moved; ours stays as it is."""
    path = directory / "clock"
    monkeypatch.setenv("LD_PRELOAD", str(LIBRARY))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(path))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("DONT_FAKE_MONOTONIC", "1")
    return WrongClock(path)


@pytest.fixture
async def shifted(directory: Path, wrong: WrongClock) -> AsyncIterator[Database]:
    server = Embedded(directory / "data")
    await server.start()
    try:
        await migrate.migrate(owner_dsn(server, "postdate"))
        opened = await opening.connect(app_dsn(server, "postdate"), writers=8, readers=4)
        yield opened
        await opened.close()
    finally:
        wrong.shift("+0")
        await server.stop()


@asynccontextmanager
async def settling(database: Database) -> AsyncIterator[Settler]:
    """Run a settler as a node does."""
    one = Settler(database, settings(), uuid4())
    loop = Loop("settlement", one.run_once, limit=MAX_LOOK, next_due=one.next_due)
    going = asyncio.create_task(loop.run())
    try:
        yield one
    finally:
        loop.stop()
        await going


async def ended(bank: Bank) -> int:
    rows = await bank.database.writer.fetchval(
        "SELECT count(*) FROM outcome WHERE tenant_id = $1 AND status = 'COMPLETED'",
        bank.tenant_id,
    )
    return int(rows)


async def prepared(database: Database) -> Bank:
    bank = Bank(database, await make_tenant(database, "shifted"))
    await bank.open({"a": 1000, "b": 0})
    return bank


async def test_a_clock_that_goes_back_an_hour_pays_nothing_twice(
    shifted: Database, wrong: WrongClock
) -> None:
    bank = await prepared(shifted)
    now = await bank.now()
    half = PAYMENTS // 2
    later = now + timedelta(seconds=30)
    await bank.pay([DuePayment("a", "b", 1, due) for due in [now] * half + [later] * half])
    async with settling(shifted):

        async def first_half() -> bool:
            return await ended(bank) == half

        await eventually(first_half, END_SECONDS)
        wrong.shift("-1h")
        assert await bank.now() < now
        await wait_out(3)
        assert await ended(bank) == half, "an hour too early, by the time that counts"
        wrong.shift("+0")

        async def everything() -> bool:
            return await ended(bank) == PAYMENTS

        await eventually(everything, END_SECONDS)
    assert (await bank.balances())["b"][0] == PAYMENTS
    assert (await prove(shifted, bank.tenant_id)).findings == []


@pytest.mark.parametrize("seconds", [2 * 3600, 60 * 86400])
async def test_a_clock_that_leaps_ahead_does_nothing(
    shifted: Database, wrong: WrongClock, receiver: Receiver, tmp_path: Path, seconds: int
) -> None:
    async def shift(ahead: int) -> None:
        wrong.shift(f"+{ahead}")

    async with running_node(shifted, receiver, tmp_path) as running:
        await leap_changes_nothing(running, receiver, shift, seconds)
