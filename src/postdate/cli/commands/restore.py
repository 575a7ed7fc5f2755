"""`postdate restore`: after a restore, hold back what may have run until it is confirmed."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, TypeVar

import cyclopts
import msgspec
import uvloop

from postdate.cli.command_table import HELP
from postdate.cli.output import show
from postdate.core.ids import BUCKETS
from postdate.core.instant import instant_text
from postdate.core.setting.table import QUARANTINE
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.lane.store import lane as lane_store
from postdate.monitor.store import vital
from postdate.node import database_address, log
from postdate.node.settings import load
from postdate.setting import store as setting_store
from postdate.setting.change import SettingChanges
from postdate.timer.timer import LANE_PAYMENT, LANE_SCHEDULE
from postdate.words.error import Code, RefusedError

MAX_COUNT: Final = 10_000
"""How far each bucket of a lane is counted."""

T = TypeVar("T")

restore_app = cyclopts.App(name="restore", help=HELP["restore"])


class QuarantineCount(msgspec.Struct, frozen=True, kw_only=True):
    """What is held back, and since when; counts are exact up to 10,000 a bucket."""

    quarantine: str | None
    jobs: int = 0
    payments: int = 0
    schedules: int = 0


@restore_app.command(name="quarantine")
def quarantine(*, until: datetime | None = None) -> None:
    """Hold back everything that was due up to now; run it before the first server starts.

    Parameters
    ----------
    until
        Hold back what was due up to this instant instead.

    """
    show(_with_any_database(lambda database: hold(database, until)))


@restore_app.command(name="status")
def status() -> None:
    """Show what is held back."""
    show(_with_any_database(held))


@restore_app.command(name="resume")
def resume() -> None:
    """Release everything that is held back, after a person has checked what really happened."""
    show(_with_any_database(release))


async def hold(database: Database, until: datetime | None = None) -> QuarantineCount:
    """Set the instant up to which nothing is touched, by the database's clock."""
    if until is None:
        async with database.connection() as connection:
            until = await clock.now(connection)
    until = until if until.tzinfo else until.astimezone()
    await SettingChanges(database).put(0, QUARANTINE, instant_text(until), changed_by="cli")
    return await held(database)


async def release(database: Database) -> QuarantineCount:
    """Clear the quarantine; return what was held back."""
    before = await held(database)
    try:
        await SettingChanges(database).clear(0, QUARANTINE)
    except RefusedError as error:
        if error.refusal.code is not Code.NOT_FOUND:
            raise
    return before


async def held(database: Database) -> QuarantineCount:
    """Count what waits."""
    async with database.connection() as connection:
        until = str(await setting_store.find(connection, QUARANTINE) or "")
        if not until:
            return QuarantineCount(quarantine=None)
        lanes = await lane_store.list_all(connection)
        places = [(bucket, lane) for lane in (LANE_PAYMENT, LANE_SCHEDULE) for bucket in _ALL]
        places += [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
        counts = await vital.due_until(connection, places, datetime.fromisoformat(until), MAX_COUNT)
    payments, schedules = counts.pop(LANE_PAYMENT, 0), counts.pop(LANE_SCHEDULE, 0)
    return QuarantineCount(
        quarantine=until, jobs=sum(counts.values()), payments=payments, schedules=schedules
    )


_ALL: Final = range(BUCKETS)


def _with_any_database(act: Callable[[Database], Awaitable[T]]) -> T:
    """Use the running database, or start the embedded one for the duration of the command."""

    async def run() -> Any:
        address = await database_address.running(settings)
        if address is not None:
            return await on(address)
        async with database_address.serving(settings, attach=False) as own:
            return await on(own)

    async def on(address: database_address.DatabaseAddress) -> T:
        database = await database_address.open_database(address, settings, writers=2, readers=2)
        try:
            return await act(database)
        finally:
            await database.close()

    settings = load()
    log.configure("warning", settings.log_format)
    found: T = uvloop.run(run())
    return found
