"""Whether payments may be settled now: a person may stop it, and so does a leap of the clock."""

from datetime import datetime
from typing import Final

import structlog

from postdate.model.setting import Settings, Stored
from postdate.settlement.guard import ClockGuard
from postdate.store import setting as setting_store
from postdate.store.database import Connection, Database

log = structlog.get_logger()

STOPPED: Final = "settlement.stopped"
STEP: Final = "settlement.clock_step_seconds"
LEAP: Final = "clock:"
"""How the reason begins when it was the clock; such a stop ends when the clock returns."""


class Stop:
    """The state of one settler; the stop itself is a setting, so that every node obeys it."""

    def __init__(
        self, database: Database, settings: Settings, guard: ClockGuard | None = None
    ) -> None:
        self._database = database
        self._settings = settings
        self._guard = guard or ClockGuard()
        self._leapt = False
        self.reason: str | None = None

    async def holds(self, connection: Connection, at: datetime) -> bool:
        """Decide, at the database's time, whether to stand still, and keep the reason."""
        leap = self._guard.leap(at, self._settings.number(STEP))
        if self._leapt:
            await self._look_again(connection, at, leap)
        elif leap is not None:
            await self._stop(connection, leap)
        else:
            self.reason = str(self._settings.get(STOPPED)) or None
        return self.reason is not None

    async def _stop(self, connection: Connection, leap: float) -> None:
        self._leapt = True
        stored = await setting_store.find(connection, STOPPED)
        self.reason = (
            str(stored)
            if stored
            else (
                f"{LEAP} the database's time leapt {leap:.0f} s ahead; "
                "`postdate settlement resume` confirms it"
            )
        )
        log.error("settlement.stopped", reason=self.reason)
        await setting_store.put(connection, Stored(0, STOPPED, self.reason), "system")

    async def _look_again(self, connection: Connection, at: datetime, leap: float | None) -> None:
        stored = str(await setting_store.find(connection, STOPPED) or "")
        if leap is None and stored.startswith(LEAP):
            await setting_store.delete(connection, 0, STOPPED)
            stored = ""
            log.warning("settlement.clock_returned")
        if stored:
            self.reason = stored
            return
        # The clock is right again, or somebody has looked at it and said so.
        self._guard.believe(at)
        self._leapt = False
        self.reason = None
        log.warning("settlement.resumed")
