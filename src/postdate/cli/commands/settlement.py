"""`postdate settlement`: stop and resume settlement on every node."""

import cyclopts

from postdate.cli.database import read_database, with_database
from postdate.cli.output import show
from postdate.intake.tenant.setting import SettingChanges
from postdate.model.error import Code, RefusedError, refuse
from postdate.settlement.stop import LEAP, STOPPED
from postdate.store.connection.database import Database
from postdate.store.payment import settlement_clock as clock_store
from postdate.store.tenant import setting as setting_store

settlement_app = cyclopts.App(name="settlement", help="Stop and resume settlement on every node.")


@settlement_app.command(name="status")
def status() -> None:
    """Say whether payments are being settled."""
    reason = read_database(lambda connection: setting_store.find(connection, STOPPED))
    show({"running": not reason, "reason": reason or None})


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
    """Resume settlement; if the clock guard stopped it, this confirms the database's time."""

    async def run(database: Database) -> bool:
        async with database.connection() as connection:
            reason = str(await setting_store.find(connection, STOPPED) or "")
            if reason.startswith(LEAP):
                await clock_store.confirm(connection)
        try:
            await SettingChanges(database).clear(0, STOPPED)
        except RefusedError as error:
            if error.refusal.code is not Code.NOT_FOUND:
                raise
            return False
        return True

    show({"running": True, "was_stopped": with_database(run)})
