"""`postdate settlement`: stop and resume settlement on every node."""

import cyclopts

from postdate.cli.command_table import HELP
from postdate.cli.database import read_database, with_database
from postdate.cli.output import show
from postdate.database import clock_watch
from postdate.database.connection.database import Connection, Database
from postdate.setting import store as setting_store
from postdate.setting.change import SettingChanges
from postdate.settlement.settler import STOPPED
from postdate.words.error import Code, RefusedError, refuse

settlement_app = cyclopts.App(name="settlement", help=HELP["settlement"])


@settlement_app.command(name="status")
def status() -> None:
    """Say whether payments are being settled, and why nodes doubt the database's clock, if so."""

    async def read(connection: Connection) -> dict[str, object]:
        reason = await setting_store.find(connection, STOPPED)
        seen = await clock_watch.read(connection)
        return {"running": not reason, "reason": reason or None, "clock": seen.doubt}

    show(read_database(read))


@settlement_app.command(name="stop")
def stop(reason: str) -> None:
    """Stop settlement on every node until `resume`; holds and timers stay as they are."""
    if not reason.strip():
        raise refuse(Code.INVALID_FIELD, "Give a reason.", "reason")
    with_database(
        lambda database: SettingChanges(database).put(0, STOPPED, reason, changed_by="cli")
    )
    show({"running": False, "reason": reason})


@settlement_app.command(name="resume")
def resume() -> None:
    """Resume settlement; if it was not stopped, confirm a database clock that nodes doubt."""

    async def run(database: Database) -> dict[str, bool]:
        was_stopped = await _clear(database)
        confirmed = False
        if not was_stopped:
            async with database.connection() as connection:
                confirmed = await clock_watch.confirm(connection)
        return {"running": True, "was_stopped": was_stopped, "clock_confirmed": confirmed}

    show(with_database(run))


async def _clear(database: Database) -> bool:
    """End the stop of a person; return whether there was one."""
    try:
        await SettingChanges(database).clear(0, STOPPED)
    except RefusedError as error:
        if error.refusal.code is not Code.NOT_FOUND:
            raise
        return False
    return True
