"""Whether payments may be settled now: a person or the clock guard may stop settlement."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final
from uuid import UUID

from postdate.model.log import Log
from postdate.model.setting.setting import Settings
from postdate.settlement.clock_guard import ClockGuard, node_time, seconds_ahead
from postdate.store.connection.database import Connection
from postdate.store.operate import node as node_store
from postdate.store.payment import settlement_clock as clock_store
from postdate.store.payment.settlement_clock import TrustedClock
from postdate.store.tenant import setting as setting_store

log = Log()

STOPPED: Final = "settlement.stopped"
STEP: Final = "settlement.clock_step_seconds"
LEAP: Final = "clock:"
"""How the reason begins when it was the clock; such a stop ends when the clock is right again."""

RECORD_SECONDS: Final = 5.0
"""How often a settler that trusts the clock records the time in the database."""

AGREE_SECONDS: Final = 60.0
"""How close this node's clock must be to the database's to end the stop of a node that is gone."""


class SettlementStop:
    """The state of one settler; the stop itself is a setting, so that every node obeys it."""

    def __init__(
        self,
        settings: Settings,
        node_id: UUID,
        guard: ClockGuard | None = None,
        node_clock: Callable[[], datetime] = node_time,
    ) -> None:
        self._settings = settings
        self._author = f"node {node_id}"
        self._guard = guard or ClockGuard()
        self._node_clock = node_clock
        self._leapt = False
        # How often the clock had been confirmed when this node began to trust it.
        self._confirmations = 0
        self._record_at = 0.0
        self.reason: str | None = None

    async def holds(self, connection: Connection, at: datetime) -> bool:
        """Return whether settlement is stopped at the database's time, and keep the reason."""
        wrong = await self._clock_fault(connection, at)
        if self._leapt:
            await self._look_again(connection, wrong)
        elif wrong is not None:
            await self._stop(connection, wrong)
        else:
            self.reason = str(self._settings.get(STOPPED)) or None
        if not self._leapt:
            await self._record(connection, at)
        return self.reason is not None

    async def _clock_fault(self, connection: Connection, at: datetime) -> str | None:
        """Return what is wrong with the time, or None if it is plausible.

        The first time is believed when it is not ahead of this node's clock, or not ahead of the
        last time that settlement recorded: either may be wrong, or long ago, but hardly both.
        """
        max_seconds = self._settings.number(STEP)
        if not self._guard.has_reference:
            recorded = await clock_store.read(connection)
            ahead = seconds_ahead(at, self._node_clock(), recorded.at)
            if ahead > max_seconds:
                return f"is {ahead:.0f} s ahead of this node's clock and of what it has recorded"
            # A clock behind the last trusted time may return to it: that is not a jump.
            self._trust(max(at, recorded.at), recorded)
        leap = self._guard.leap(at, max_seconds)
        if leap is None or await self._confirmed(connection, at):
            return None
        return f"leapt {leap:.0f} s ahead"

    async def _confirmed(self, connection: Connection, at: datetime) -> bool:
        """Return whether a person has confirmed this jump; the end of a stop alone does not.

        Another node may have ended the stop because the clock had returned before it jumped again.
        """
        recorded = await clock_store.read(connection)
        near = seconds_ahead(at, recorded.at) <= self._settings.number(STEP)
        if not near or recorded.confirmations <= self._confirmations:
            return False
        self._trust(at, recorded)
        return True

    def _trust(self, at: datetime, recorded: TrustedClock) -> None:
        self._guard.accept_time(at)
        self._confirmations = recorded.confirmations

    async def _stop(self, connection: Connection, wrong: str) -> None:
        self._leapt = True
        stored = await setting_store.find(connection, STOPPED)
        self.reason = (
            str(stored)
            if stored
            else f"{LEAP} the database's time {wrong}; `postdate settlement resume` confirms it"
        )
        log.error("settlement.stopped", reason=self.reason)
        if not stored:
            await setting_store.put_unset(connection, STOPPED, self.reason, self._author)

    async def _look_again(self, connection: Connection, wrong: str | None) -> None:
        stored = str(await setting_store.find(connection, STOPPED) or "")
        if wrong is not None:
            if stored:
                self.reason = stored
            else:
                await self._stop(connection, wrong)
            return
        # The clock is right again, or somebody has confirmed it.
        if stored.startswith(LEAP):
            await setting_store.withdraw(connection, STOPPED, stored)
            log.warning("settlement.clock_returned")
        elif stored:
            self.reason = stored
            return
        self._leapt = False
        self.reason = None
        log.warning("settlement.resumed")

    async def _record(self, connection: Connection, at: datetime) -> None:
        """Record that the clock is trusted, and end a stop whose node is gone."""
        now = time.monotonic()
        if now < self._record_at:
            return
        self._record_at = now + RECORD_SECONDS
        if self.reason is not None and self.reason.startswith(LEAP):
            await self._end_for_others(connection, at, self.reason)
        else:
            await clock_store.record(connection, at)

    async def _end_for_others(self, connection: Connection, at: datetime, reason: str) -> None:
        """End a stop whose node is gone, if this node's clock agrees with the database."""
        apart = abs((at - self._node_clock()).total_seconds())
        if apart > min(AGREE_SECONDS, self._settings.number(STEP)):
            return
        rows = await setting_store.page(connection, 0)
        author = next((row.changed_by for row in rows if row.name == STOPPED), "")
        if author not in {
            f"node {node.node_id}" for node in await node_store.list_live(connection)
        }:
            await setting_store.withdraw(connection, STOPPED, reason)
            log.warning("settlement.clock_agrees", author=author)
