"""Pause and limit lanes, and undo it unless others have changed the lane since."""

from functools import partial
from math import isclose

from postdate.change_set.change.change import ChangeStep, LaneChanges, PauseLane
from postdate.change_set.change.step_work import ObjectOperation, StepWork
from postdate.core.identity import Identity
from postdate.database.connection.database import Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.lane.change import Lanes
from postdate.lane.spec import LanePauseBody
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.words.error import not_found


class LaneOperation(ObjectOperation):
    """Changes lanes."""

    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._database = database
        self._lanes = lanes

    async def plan(self, actor: Identity, change: LaneChanges) -> ChangeStep:
        """Refuse a lane that does not exist."""
        async with self._database.read(actor.tenant_id) as connection:
            found = await lane_store.find(connection, [(actor.tenant_id, change.lane)])
        if not found:
            raise not_found("lane", change.lane)
        return ChangeStep()

    async def suppose(
        self, _actor: Identity, change: LaneChanges, _step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add a pause or a limit."""
        if isinstance(change, PauseLane):
            hypothesis.paused_lanes.add(change.lane)
        else:
            hypothesis.rates[change.lane] = change.rate_per_second

    async def make(self, work: StepWork, change: LaneChanges) -> None:
        """Pause or limit a lane; one that is paused already stays as it is."""
        if isinstance(change, PauseLane):
            before = work.recording(_is_paused)
            await self._lanes.pause(work.actor, change.lane, LanePauseBody(note=work.note), before)
        else:
            rate = {"rate_per_second": change.rate_per_second}
            await self._lanes.change(work.actor, change.lane, rate, work.recording(_rate))

    async def unmake(self, work: StepWork, change: LaneChanges) -> None:
        """Resume a lane that this change paused, or restore its old limit."""
        if isinstance(change, PauseLane):
            others = f"lane {change.lane}: it was paused or resumed by others since"
            ours = partial(_is_paused, note=work.note)
            await self._lanes.resume(work.actor, change.lane, work.restoring(ours, others))
        else:
            others = f"lane {change.lane}: its limit was changed by others since"
            rate = {"rate_per_second": work.step.before}
            ours = partial(_has_rate, given=change.rate_per_second)
            await self._lanes.change(work.actor, change.lane, rate, work.restoring(ours, others))


def _is_paused(lane: Lane, note: str | None = None) -> bool:
    """Return whether a lane is paused, or paused with this note."""
    return lane.paused_at is not None and note in {None, lane.paused_note}


def _rate(lane: Lane) -> float | None:
    return lane.rate_per_second


def _has_rate(lane: Lane, given: float | None) -> bool:
    """Compare rates; they are stored with single precision."""
    stored = lane.rate_per_second
    if stored is None or given is None:
        return stored is given
    return isclose(stored, given, rel_tol=1e-6)
