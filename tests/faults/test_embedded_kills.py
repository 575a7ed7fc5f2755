"""The embedded server after kills: adopted, revived, begun again, nothing lost."""

import asyncio
import os
import signal
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

import asyncpg
import psutil
import pytest

from postdate.database.embedded import Embedded, judge, process, supervisor
from postdate.database.embedded.probe import UNANSWERED
from postdate.database.embedded.pulse import Pulse
from support.embedded_server import (
    LONG_WORK,
    kill_and_wait,
    names,
    orphaned,
    query,
    serves,
    sleeper,
    until,
    works,
)


async def test_server_of_a_killed_parent_is_adopted(own_server: Embedded, data_dir: Path) -> None:
    orphan = await orphaned(data_dir)
    login = await own_server.start()
    assert own_server.pid == orphan
    assert await serves(login)
    await own_server.stop()
    assert not psutil.pid_exists(orphan) or not process.is_live(psutil.Process(orphan))


async def test_killed_postmaster_is_revived_with_all_commits(own_server: Embedded) -> None:
    login = await own_server.start()
    await query(login.owner_dsn(), "CREATE TABLE kept (n int)")
    watch = asyncio.create_task(own_server.watch())
    for n in range(3):
        await query(login.owner_dsn(), f"INSERT INTO kept VALUES ({n})")
        assert await kill_and_wait(own_server, login) < 5
    assert await query(login.owner_dsn(), "SELECT count(*) FROM kept") == 3
    watch.cancel()


@pytest.mark.soak
async def test_killed_postmaster_is_revived_20_of_20(own_server: Embedded) -> None:
    login = await own_server.start()
    await query(login.owner_dsn(), "CREATE TABLE load (n int)")
    watch = asyncio.create_task(own_server.watch())
    took = []
    for _ in range(20):
        # A backend in the middle of its work does not notice that the postmaster is gone.
        busy = await asyncpg.connect(login.owner_dsn())
        work = asyncio.create_task(busy.execute(LONG_WORK))
        await until(partial(works, own_server))
        took.append(await kill_and_wait(own_server, login))
        with pytest.raises(UNANSWERED):
            await work
    watch.cancel()
    assert max(took) < 5, took


async def test_busy_orphans_of_a_killed_postmaster_do_not_hinder_a_start(
    own_server: Embedded, data_dir: Path
) -> None:
    login = await own_server.start()
    await query(login.owner_dsn(), "CREATE TABLE load (n int)")
    busy = await asyncpg.connect(login.owner_dsn())
    work = asyncio.create_task(busy.execute(LONG_WORK))

    await until(partial(works, own_server))
    assert own_server.pid is not None
    os.kill(own_server.pid, signal.SIGKILL)
    await own_server.stop()
    with pytest.raises(UNANSWERED):
        await work
    assert process.members(data_dir / "cluster") == []
    assert await own_server.start() == login


async def test_lock_file_with_a_reused_process_number_does_not_hinder_a_start(
    own_server: Embedded, data_dir: Path
) -> None:
    await own_server.start()
    user = (data_dir / "cluster").stat().st_uid
    await own_server.stop()
    other = sleeper(user)
    try:
        pidfile = data_dir / "cluster/postmaster.pid"
        pidfile.write_text(f"{other.pid}\n{data_dir}/cluster\n0\n5432\n\n\n\n")
        assert await serves(await own_server.start())
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_start_recovers_from_a_kill_during_initdb(
    own_server: Embedded, data_dir: Path
) -> None:
    login = await own_server.start()
    await own_server.stop()
    # What such a kill leaves: credentials, the lock and half a cluster beside its place.
    (data_dir / "cluster").rename(data_dir / "cluster.new-0badcafe")
    (data_dir / "cluster.new-0badcafe.password").write_text("secret")
    assert await own_server.start() == login
    assert not names(data_dir, "new")


async def test_start_recovers_from_a_kill_during_bootstrap(own_server: Embedded) -> None:
    login = await own_server.start()
    admin = await asyncpg.connect(own_server.credentials.superuser_dsn())
    await admin.execute("DROP DATABASE postdate")
    await admin.execute("DROP ROLE postdate_app")
    await admin.execute("ALTER ROLE postdate_owner PASSWORD 'other' SUPERUSER")
    await admin.close()
    await own_server.stop()
    await own_server.start()
    assert await serves(login)
    assert await query(login.owner_dsn(), "SELECT current_setting('is_superuser')") == "off"


async def test_server_stuck_in_recovery_is_left_and_started_again(
    own_server: Embedded, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first recovery waits for a segment that does not come; the next is told there is none.
    monkeypatch.setattr(judge, "STILL_CHECKS", 2)
    once = f'test -e "{data_dir}/cluster/asked" || {{ touch asked; exec sleep 30; }}; exit 1'
    with (data_dir / "cluster/postgresql.conf").open("a") as file:
        file.write(f"restore_command = '{once}'\n")
    (data_dir / "cluster/recovery.signal").touch()
    login = await own_server.start()
    assert (data_dir / "cluster/asked").exists()
    assert await serves(login)


async def test_killed_backend_costs_no_restart(own_server: Embedded) -> None:
    login = await own_server.start()
    watch = asyncio.create_task(own_server.watch())
    before = own_server.pid
    victim = await asyncpg.connect(login.app_dsn())
    os.kill(victim.get_server_pid(), signal.SIGKILL)

    async def noticed() -> bool:
        return victim.is_closed()

    await until(noticed)
    await until(partial(serves, login), 5)
    assert own_server.pid == before
    watch.cancel()


async def test_watchdog_outlives_its_own_failure(
    own_server: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "REVIVE_PAUSE_SECONDS_MAX", 0.01)
    failing = AsyncMock(side_effect=[ZeroDivisionError, True])
    monkeypatch.setattr(Pulse, "beat", failing)
    login = await own_server.start()
    watch = asyncio.create_task(own_server.watch())

    async def beaten() -> bool:
        return failing.await_count >= 1

    await until(beaten)
    assert await kill_and_wait(own_server, login) < 5
    watch.cancel()
