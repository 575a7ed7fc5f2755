"""Pause and limit lanes, and undo it unless somebody else has changed the lane since."""

from math import isclose

from postdate.change_set.change.change import ChangeStep, LaneChanges, PauseLane
from postdate.change_set.change.step_work import StepWork
from postdate.core.identity import Identity
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.lane.change import LaneChange, Lanes
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.words.error import not_found


class LaneOperation:
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
        actor, step = work.actor, work.step

        async def before(connection: Connection, lane: Lane) -> bool:
            step.paused = lane.paused_at is not None
            step.rate_per_second = lane.rate_per_second
            await work.done(connection)
            return not (step.paused and isinstance(change, PauseLane))

        if isinstance(change, PauseLane):
            await self._lanes.pause(
                actor.tenant_id, change.lane, note=work.note, actor=actor.key_id, before=before
            )
        else:
            rate = LaneChange(rate_per_second=change.rate_per_second)
            await self._lanes.change(actor.tenant_id, change.lane, rate, actor.key_id, before)

    async def check_undo(self, actor: Identity, change: LaneChanges, step: ChangeStep) -> None:
        """Allow it: jobs that a lane started meanwhile do not matter."""

    async def unmake(self, work: StepWork, change: LaneChanges) -> None:
        """Resume a lane that this change paused, or restore its old limit."""
        actor, step = work.actor, work.step

        async def before(connection: Connection, lane: Lane) -> bool:
            if isinstance(change, PauseLane):
                ours = lane.paused_at is not None and lane.paused_note == work.note
                why = None if ours or step.paused else "it was paused or resumed by others since"
            else:
                ours = _equal_rates(lane.rate_per_second, change.rate_per_second)
                why = None if ours else "its limit was changed by others since"
            await work.undone(connection, why and f"lane {lane.name}: {why}")
            return ours

        if isinstance(change, PauseLane):
            await self._lanes.resume(
                actor.tenant_id, change.lane, actor=actor.key_id, before=before
            )
        else:
            rate = LaneChange(rate_per_second=step.rate_per_second)
            await self._lanes.change(actor.tenant_id, change.lane, rate, actor.key_id, before)


def _equal_rates(stored: float | None, given: float | None) -> bool:
    """Compare rates; they are stored with single precision."""
    if stored is None or given is None:
        return stored is given
    return isclose(stored, given, rel_tol=1e-6)
