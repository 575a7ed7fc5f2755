"""Test clocks: advance them, one advance at a time."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from postdate.core.instant import instant_text
from postdate.core.test_clock import check_duration, following_tenant
from postdate.database.connection.database import Connection, Database
from postdate.test_clock import store
from postdate.test_clock.change.advance import HOLD_SECONDS, ClockAdvance, Stages
from postdate.test_clock.store import ClockRow
from postdate.words.error import Code, RefusedError, refuse

WORK_SECONDS: Final = 5.0
"""How long one request advances a clock; what is left is for the next one."""


class AdvanceOrder(NamedTuple):
    """How far to advance: by a duration, to an instant, or (neither) to the interrupted target."""

    by: timedelta | None = None
    to: datetime | None = None
    key: str | None = None


class Advanced(NamedTuple):
    """The progress of an advance; `first` is the last entry before this request."""

    at: datetime
    target: datetime
    advance: int
    first: int
    finished: bool


class TestClocks:
    """Advance the clocks of tenants in test mode."""

    __test__ = False  # it is no test of pytest's

    def __init__(self, database: Database, stages: Callable[[int], Stages]) -> None:
        self._database = database
        self._stages = stages

    async def advance(self, tenant_id: int, order: AdvanceOrder) -> Advanced:
        """Advance a clock, or continue an interrupted advance."""
        stages = self._stages(tenant_id)
        with following_tenant(None):
            await stages.seal()
            clock, begun = await self._begin(tenant_id, order)
        if not begun.held:
            return clock
        going = ClockAdvance(
            database=self._database,
            stages=stages,
            tenant_id=tenant_id,
            holder=begun.holder,
            at=clock.at,
            target=clock.target,
        )
        async with self._held(going):
            await going.run(WORK_SECONDS)
        return clock._replace(at=going.at, finished=going.finished)

    async def _begin(self, tenant_id: int, order: AdvanceOrder) -> "tuple[Advanced, _Begun]":
        holder = UUID(bytes=secrets.token_bytes(16))
        async with self._database.write("clock.begin") as connection:
            clock = await store.lock(connection, tenant_id)
            if clock is None:
                raise refuse(
                    Code.NOT_IN_TEST_MODE, "The clock of a live tenant cannot be advanced."
                )
            if clock.held:
                raise refuse(
                    Code.CLOCK_ADVANCING,
                    "Another request is advancing this clock.",
                    retry_after_seconds=HOLD_SECONDS,
                )
            known = order.key is not None and order.key == clock.advance_key
            if known and clock.target is None:
                # The same request again: it was answered, or its answer got lost.
                return _ended(clock), _Begun(holder, held=False)
            target = clock.target
            if target is None:
                target = _target(clock.at, order)
                await store.begin(connection, tenant_id, target, order.key)
                clock = await _again(connection, tenant_id)
            elif not known and (order.by is not None or order.to is not None):
                raise _unfinished(target)
            await store.take(connection, tenant_id, holder, HOLD_SECONDS)
        return _going(clock, target), _Begun(holder, held=True)

    @asynccontextmanager
    async def _held(self, going: ClockAdvance) -> AsyncIterator[None]:
        """Lock the clock during the advance, and unlock it in every case."""
        keeping = asyncio.create_task(self._keep(going))
        try:
            yield
        finally:
            keeping.cancel()
            with suppress(asyncio.CancelledError):
                await keeping
            await asyncio.shield(self._let_go(going))

    async def _keep(self, going: ClockAdvance) -> None:
        with following_tenant(None):
            while True:
                await asyncio.sleep(HOLD_SECONDS / 4)
                async with self._database.write() as connection:
                    await store.move(
                        connection, going.tenant_id, going.holder, going.at, HOLD_SECONDS
                    )

    async def _let_go(self, going: ClockAdvance) -> None:
        with following_tenant(None):
            async with self._database.write("clock.let_go") as connection:
                await store.let_go(
                    connection, going.tenant_id, going.holder, finished=going.finished
                )


class _Begun(NamedTuple):
    holder: UUID
    held: bool


async def _again(connection: Connection, tenant_id: int) -> ClockRow:
    clock = await store.lock(connection, tenant_id)
    if clock is None:
        raise RuntimeError("a test clock vanished while it was locked")
    return clock


def _target(at: datetime, order: AdvanceOrder) -> datetime:
    if (order.by is None) == (order.to is None):
        raise refuse(
            Code.INVALID_FIELD, "Give either `by` (a duration) or `to` (an instant).", "by"
        )
    if order.by is not None:
        try:
            return at + order.by
        except OverflowError:
            raise refuse(Code.INVALID_FIELD, "The clock would pass the year 9999.", "by") from None
    to = order.to or at
    if to < at:
        detail = f"The clock shows {instant_text(at)} and never goes back."
        raise refuse(Code.INVALID_FIELD, detail, "to")
    check_duration((to - at).total_seconds(), "to")
    return to


def _unfinished(target: datetime) -> RefusedError:
    return refuse(
        Code.ADVANCE_UNFINISHED,
        f"The advance to {instant_text(target)} is not finished.",
        target=instant_text(target),
    )


def _going(clock: ClockRow, target: datetime) -> Advanced:
    return Advanced(clock.at, target, clock.advance, clock.entries, finished=False)


def _ended(clock: ClockRow) -> Advanced:
    """Return a finished advance; its entries are found by its number."""
    return Advanced(clock.at, clock.at, clock.advance, 0, finished=True)
