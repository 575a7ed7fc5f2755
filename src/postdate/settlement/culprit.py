"""The one payment that broke its batch: tried again ever later, then left to a person."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from postdate.ledger.batch import SYSTEM, pause
from postdate.model.ids import new_id
from postdate.model.setting import Settings
from postdate.store import event as event_store
from postdate.store import halt as halt_store
from postdate.store import settlement as store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent
from postdate.store.settlement import Ending, Execution, LockedTimer

BROKE: Final = "settlement_error"
"""The code of an execution that broke for a reason that has nothing to do with money."""

ERROR_CHARACTERS: Final = 500


async def record(
    database: Database, settings: Settings, key: tuple[int, UUID], error: Exception
) -> int:
    """Write the attempt and move the timer, or park it for a person; the hold stays either way."""
    async with database.write() as connection:
        timers, held = await store.lock(connection, [key])
        await halt_store.set_aside(connection, held)
        for timer in timers:
            count = await store.trials(connection, timer, BROKE)
            text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
            wait = None
            if count < settings.whole("payment.retry_attempts", timer.tenant_id):
                wait = pause(settings.number("payment.retry_seconds", timer.tenant_id), count)
            await _write(connection, timer, text, wait, database.unix_ms())
    return len(timers) + len(held)


async def _write(
    connection: Connection, timer: LockedTimer, text: str, wait: timedelta | None, unix_ms: int
) -> None:
    retry_at = None if wait is None else timer.at + wait
    ending = Ending(timer, BROKE, text, retry_at)
    await store.write_attempts(connection, [ending], Execution(timer.at))
    data: dict[str, Any] = {"code": BROKE, "error": text}
    if retry_at is None:
        await store.park(connection, timer)
        kind = "payment.dead_lettered"
    else:
        await store.retry(connection, [ending])
        kind = "payment.retried"
        data["retry_at"] = retry_at
    event_id = new_id(timer.bucket, unix_ms)
    event = NewEvent(timer.bucket, timer.tenant_id, timer.subject, event_id, kind, SYSTEM, data)
    await event_store.insert(connection, [event])
