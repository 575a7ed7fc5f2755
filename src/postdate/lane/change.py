"""Lanes: created when first used, changed and paused by people."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.intake.before_change import BeforeChange, always
from postdate.lane.spec import LanePauseBody, LaneView, NewLane, PerKey
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane, LaneDirectory, LaneKey
from postdate.lane.view import LANE, new_view
from postdate.resource.change import Change, Changes, Given
from postdate.words.error import Code, Refusal, RefusedError, not_found, refuse


class Lanes(Changes):
    """Finds, creates, changes and pauses lanes."""

    def __init__(self, database: Database, directory: LaneDirectory, settings: Settings) -> None:
        super().__init__(database, settings)
        self.directory = directory

    async def ensure(
        self, connection: Connection, lane_keys: Collection[LaneKey]
    ) -> tuple[list[Lane], Mapping[LaneKey, Refusal]]:
        """Create missing lanes; return all lanes, and a refusal for each that may not be created.

        The caller must inform the directory after the commit.
        """
        if not lane_keys:
            return [], {}
        found = await lane_store.find(connection, [key[:2] for key in lane_keys])
        missing = set(lane_keys) - {lane.key for lane in found}
        names = {(lane.tenant_id, lane.name) for lane in found}
        refused = await self._over_limit(connection, missing, names)
        allowed = missing - refused.keys()
        made = await lane_store.ensure(connection, allowed) if allowed else []
        return [*found, *made], refused

    async def _over_limit(
        self, connection: Connection, missing: Iterable[LaneKey], names: set[tuple[int, str]]
    ) -> dict[LaneKey, Refusal]:
        refused: dict[LaneKey, Refusal] = {}
        counts: dict[int, int] = {}
        for lane_key in sorted(missing):
            tenant_id, name = lane_key[:2]
            if (tenant_id, name) in names:
                continue
            if tenant_id not in counts:
                counts[tenant_id] = await lane_store.count(connection, tenant_id)
            max_lanes = self.settings.integer("job.max_lanes", tenant_id)
            if counts[tenant_id] >= max_lanes:
                detail = f"The tenant has {counts[tenant_id]} lanes; the limit is {max_lanes}."
                refused[lane_key] = Refusal(Code.TOO_MANY_LANES, detail, "lane")
                continue
            counts[tenant_id] += 1
            names.add((tenant_id, name))
        return refused

    @LANE.create(errors=(Code.TOO_MANY_LANES,))
    async def create(self, change: Change[Identity], spec: NewLane) -> LaneView:
        """Create a lane before its first job, so that its limits hold from the first.

        The first job that names a lane creates it without limits.
        """
        await lane_store.change_alone(change.connection, change.tenant_id)
        if await lane_store.find(change.connection, [(change.tenant_id, spec.lane)]):
            raise refuse(Code.CONFLICT, f"There is a lane {spec.lane} already.", "lane")
        wanted = LaneKey(change.tenant_id, spec.lane, "push")
        made, refused = await self.ensure(change.connection, [wanted])
        if wanted in refused:
            raise RefusedError(refused[wanted])
        given = {name: getattr(spec, name) for name in LANE.patchable}
        return new_view(await self._write(change, made[0], given))

    @LANE.change()
    async def change(
        self,
        change: Change[Identity],
        name: str,
        given: Given,
        before: BeforeChange[Lane] = always,
    ) -> None:
        """Change the weight, width and limits of a lane.

        The weight decides when lanes compete; limits apply across all nodes, those of `per_key`
        to each `key` of its jobs.
        """
        if not given:
            raise refuse(Code.INVALID_FIELD, "Give at least one field to change.")
        lane = await _one(change, name)
        if not await before(change.connection, lane):
            return
        await self._write(change, lane, given)

    async def _write(self, change: Change[Identity], lane: Lane, given: Given) -> Lane:
        if given.get("width", lane.width) < lane.width:
            detail = f"The width is {lane.width} and can only grow: jobs are in its buckets."
            raise refuse(Code.INVALID_FIELD, detail, "width")
        _check_per_key(given.get("per_key"))
        wanted = msgspec.structs.replace(lane, **given)
        changed = await lane_store.change(change.connection, wanted)
        await self._record(change, changed, msgspec.to_builtins(given))
        return changed[0]

    @LANE.act("pause", "paused")
    async def pause(
        self,
        change: Change[Identity],
        name: str,
        body: LanePauseBody,
        before: BeforeChange[Lane] = always,
    ) -> None:
        """Pause a lane: running jobs continue, no other job starts.

        New jobs are still accepted; waiting jobs keep their due instants.
        """
        lane = await _one(change, name)
        if await before(change.connection, lane):
            changed = await lane_store.pause(
                change.connection,
                change.tenant_id,
                name,
                paused=True,
                note=body.note,
                actor=change.actor.key_id,
            )
            await self._record(change, changed, {"note": body.note})

    @LANE.act("resume", "resumed")
    async def resume(
        self, change: Change[Identity], name: str, before: BeforeChange[Lane] = always
    ) -> None:
        """Resume a paused lane.

        Jobs that came due meanwhile start immediately, within the lane's limits.
        """
        lane = await _one(change, name)
        if await before(change.connection, lane):
            key = change.tenant_id, name
            changed = await lane_store.pause(change.connection, *key, paused=False)
            await self._record(change, changed, {})

    async def _record(self, change: Change[Identity], changed: list[Lane], data: Given) -> None:
        """Record the event; this node knows of the change once it is committed."""
        [lane, *_] = changed
        await change.record(lane.name, {"lane": lane.name, **data})
        change.afterwards(lambda: self.directory.remember(changed))


async def _one(change: Change[Identity], name: str) -> Lane:
    await lane_store.change_alone(change.connection, change.tenant_id)
    found = await lane_store.find(change.connection, [(change.tenant_id, name)])
    if not found:
        raise not_found("lane", name)
    return found[0]


def _check_per_key(per_key: PerKey | None) -> None:
    if per_key is not None and per_key.rate_burst is not None and per_key.rate_per_second is None:
        detail = "A burst needs a rate: give `rate_per_second`, too."
        raise refuse(Code.INVALID_FIELD, detail, "per_key.rate_burst")
