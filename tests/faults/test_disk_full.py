"""The disk runs full under a running server: nothing unsaved is acknowledged, and it recovers."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from conftest import app_dsn, eventually, owner_dsn, scratch
from faults.sweep_money import identity
from postdate.core.setting.setting import Settings
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.database.embedded import Embedded
from postdate.intake.idempotency import Refused
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import PaymentRequest
from postdate.payment.spec.payment import PaymentOrder
from postdate.schema import migrate
from support.bank import Bank
from support.worker import make_tenant

DISK_MEGABYTES = 512
SERVING_SECONDS = 30.0
BIG = "x" * 200

pytestmark = pytest.mark.soak


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk of its own; whoever may not mount one skips, and says so."""
    with scratch() as directory:
        options = f"size={DISK_MEGABYTES}m,mode=0711"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)],
            check=False, capture_output=True,
        )  # fmt: skip
        if mounted.returncode:
            pytest.skip("mounting a small disk needs privileges that are not here")
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
async def server_on(disk: Path) -> AsyncIterator[Embedded]:
    embedded = Embedded(disk / "data")
    await embedded.start()
    watching = asyncio.create_task(embedded.watch())
    yield embedded
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await embedded.stop()


def fill(disk: Path) -> Path:
    """Leave nothing free."""
    ballast = disk / "ballast"
    room = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
    return ballast


async def pay(database: Database, tenant_id: int, number: int) -> bool:
    """Ask for a payment; say whether it was acknowledged."""
    order = PaymentOrder(
        from_account_id="a", to_account_id="b", amount=1, delay_seconds=3600, description=BIG
    )
    wanted = PaymentRequest(order, f"key-{number}")
    try:
        answer = await PaymentIntake(database, Settings()).submit(identity(tenant_id), wanted)
    except DatabaseError:
        return False
    assert not isinstance(answer, Refused), answer
    return True


async def test_a_full_disk_acknowledges_nothing_unsaved_and_heals(
    server_on: Embedded, disk: Path
) -> None:
    await migrate.migrate(owner_dsn(server_on, "postdate"))
    database = await opening.connect(app_dsn(server_on, "postdate"), writers=4, readers=1)
    tenant_id = await make_tenant(database, "full")
    await Bank(database, tenant_id).open({"a": 1_000_000, "b": 0})
    acknowledged = [n for n in range(20) if await pay(database, tenant_id, n)]
    assert len(acknowledged) == 20
    ballast, number = fill(disk), 20
    refused = 0
    until = time.monotonic() + 60
    while refused < 10 and time.monotonic() < until:
        number += 1
        if await pay(database, tenant_id, number):
            acknowledged.append(number)
        else:
            refused += 1
    assert refused == 10, f"the disk never ran full, {number} payments"
    ballast.unlink()
    healed = time.monotonic()
    await eventually(partial(pay, database, tenant_id, number + 1), SERVING_SECONDS)
    acknowledged.append(number + 1)
    print(f"{len(acknowledged)} acknowledged, serving {time.monotonic() - healed:.1f} s after")
    for each in range(20, number + 1):  # who was refused asks again
        with suppress(DatabaseError):
            await pay(database, tenant_id, each)
    stored = await database.writer.fetchval(
        "SELECT count(*) FROM payment WHERE tenant_id = $1", tenant_id
    )
    assert stored == number + 2, "one payment for each key"
    assert (await prove(database, tenant_id)).findings == []
    await database.close()
