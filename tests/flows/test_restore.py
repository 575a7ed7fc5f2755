"""After a restore, what was due before it waits until somebody confirms; what is new goes on."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import msgspec
import pytest

from conftest import INTERNAL_TOKEN, Api, app_dsn, owner_dsn
from postdate.cli.commands import restore
from postdate.core.setting.setting import LONG_AGO, Settings, Stored, validate
from postdate.core.setting.table import QUARANTINE
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.schema import migrate
from postdate.setting import store as setting_store
from postdate.settlement.settler import Settler
from postdate.words.error import RefusedError
from support.bank import Bank, drain, settings
from support.worker import Handled, add_jobs, make_lane, make_worker, step

COMMAND = Path(sys.executable).with_name("postdate")


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    return Bank(database, tenant_id)


async def follow(database: Database, found: Settings) -> Settings:
    async with database.connection() as connection:
        found.replace(await setting_store.load(connection))
    return found


async def test_jobs_due_before_wait_and_new_ones_run(database: Database, tenant_id: int) -> None:
    lane = await make_lane(database, tenant_id)
    old = await add_jobs(database, lane, 3, in_seconds=(-5,))
    await restore.hold(database)
    handled = Handled()
    worker = await make_worker(database, handled, tenant_id)
    await follow(database, worker.settings)
    new = await add_jobs(database, lane, 1)
    await step(worker)
    await step(worker)  # The first one finds the lane, by what must not be touched.
    assert [each.job_id for each in handled.deliveries] == new
    assert (await restore.held(database)).jobs >= 3
    assert (await restore.release(database)).jobs >= 3
    await follow(database, worker.settings)
    worker.claimer.hint(lane.lane_id)
    await worker.run_once(10)
    await worker.runner.wait_idle()
    assert {each.job_id for each in handled.deliveries} == {*old, *new}


async def test_a_person_may_let_one_job_run(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "lane": "one", "payload": {}}
    made = await api.call("POST", "/jobs", body)
    await restore.hold(api.node.database)
    await api.node.refresh_settings()
    try:
        claimed = await api.call("POST", "/lanes/one/claim", {"max": 5})
        assert claimed.body["leases"] == []
        await api.call("PATCH", f"/jobs/{made.body['job_id']}", {"delay_seconds": 0})
        claimed = await api.call("POST", "/lanes/one/claim", {"max": 5})
        assert [lease["job_id"] for lease in claimed.body["leases"]] == [made.body["job_id"]]
    finally:
        await restore.release(api.node.database)
        await api.node.refresh_settings()


async def test_payments_due_before_wait(bank: Bank, api: Api) -> None:
    await bank.open({"a": 100, "b": 0})
    payment_id = await bank.due("a", "b", 5)
    await restore.hold(bank.database)
    until = (await restore.held(bank.database)).quarantine
    found = settings(**{QUARANTINE: until})
    one = Settler(bank.database, found, uuid4())
    assert await drain(one) == 0
    await api.node.refresh_settings()
    asked = await api.call(
        "POST",
        f"/internal/payments/{payment_id}/execute",
        {"execution_id": "mine"},
        headers={"X-Internal-Auth": INTERNAL_TOKEN},
    )
    assert (asked.status, "restore" in asked.body["detail"]) == (503, True)
    await restore.release(bank.database)
    await api.node.refresh_settings()
    found.replace(settings()._stored)
    assert await drain(one) == 1


async def test_a_restored_dump_is_held_back_by_itself(
    server: Embedded, database_name: str, database: Database
) -> None:
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    try:
        # A dump brings transaction ids along that this server has not reached.
        await owner.execute("UPDATE postdate.birthplace SET place = 'another server'")
    finally:
        await owner.close()
    await migrate.migrate(owner_dsn(server, database_name))
    assert (await restore.held(database)).quarantine is not None
    await restore.release(database)
    assert (await restore.held(database)).quarantine is None


async def command(server: Embedded, name: str, *words: str) -> Any:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        "restore",
        *words,
        "--json",
        env=environ | {"POSTDATE_DATABASE_URL": app_dsn(server, name)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return msgspec.json.decode(out)


async def test_the_restore_commands_set_show_and_clear_the_quarantine(
    server: Embedded, database_name: str
) -> None:
    told = await command(server, database_name, "quarantine", "--until", "2030-01-01T00:00:00Z")
    assert told["quarantine"].startswith("2030-01-01")
    assert (await command(server, database_name, "status"))["quarantine"] == told["quarantine"]
    await command(server, database_name, "resume")
    assert (await command(server, database_name, "status"))["quarantine"] is None


def test_the_floor_follows_the_setting() -> None:
    until = "2030-01-01T00:00:00+00:00"
    found = Settings({(0, QUARANTINE): Stored(0, QUARANTINE, until)})
    assert found.floor.year == 2030
    found.replace({})
    assert found.floor == LONG_AGO
    with pytest.raises(RefusedError):
        validate(QUARANTINE, "yesterday")
    with pytest.raises(RefusedError):
        validate(QUARANTINE, "2030-01-01T00:00:00")
    assert validate(QUARANTINE, "") == ""
