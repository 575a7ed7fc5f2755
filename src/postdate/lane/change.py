"""Lanes: created when first used, changed and paused by people."""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import named, record_event
from postdate.intake.before_change import BeforeChange, always
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane, LaneDirectory, LaneKey
from postdate.words.error import Code, Refusal, not_found, refuse


class LaneChange(msgspec.Struct, frozen=True, kw_only=True):
    """New values for a lane; UNSET leaves a value as it is, None removes a limit."""

    weight: int | msgspec.UnsetType = msgspec.UNSET
    width: int | msgspec.UnsetType = msgspec.UNSET
    max_running: int | msgspec.UnsetType | None = msgspec.UNSET
    rate_per_second: float | msgspec.UnsetType | None = msgspec.UNSET


class Lanes:
    """Finds, creates, changes and pauses lanes."""

    def __init__(self, database: Database, directory: LaneDirectory, settings: Settings) -> None:
        self._database = database
        self._settings = settings
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
        missing = set(lane_keys) - {(each.tenant_id, each.name, each.kind) for each in found}
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
            tenant_id, name, _ = lane_key
            if (tenant_id, name) in names:
                continue
            if tenant_id not in counts:
                counts[tenant_id] = await lane_store.count(connection, tenant_id)
            max_lanes = self._settings.integer("job.max_lanes", tenant_id)
            if counts[tenant_id] >= max_lanes:
                detail = f"The tenant has {counts[tenant_id]} lanes; the limit is {max_lanes}."
                refused[lane_key] = Refusal(Code.TOO_MANY_LANES, detail, "lane")
                continue
            counts[tenant_id] += 1
            names.add((tenant_id, name))
        return refused

    async def change(
        self,
        tenant_id: int,
        name: str,
        change: LaneChange,
        actor: str,
        before: BeforeChange[Lane] = always,
    ) -> None:
        """Change weight, width or limits of a lane."""
        values = {k: v for k, v in msgspec.structs.asdict(change).items() if v is not msgspec.UNSET}
        async with self._database.write("lane.change") as connection:
            lane = await _one(connection, tenant_id, name)
            if not await before(connection, lane):
                return
            if values.get("width", lane.width) < lane.width:
                detail = f"The width is {lane.width} and can only grow: jobs are in its buckets."
                raise refuse(Code.INVALID_FIELD, detail, "width")
            changed = await lane_store.change(connection, msgspec.structs.replace(lane, **values))
            await self._record(connection, lane, "lane.changed", actor, values)
        self.directory.remember(changed)

    async def pause(
        self,
        tenant_id: int,
        name: str,
        *,
        note: str | None,
        actor: str,
        before: BeforeChange[Lane] = always,
    ) -> None:
        """Pause a lane: running jobs continue, no other job starts until it is resumed."""
        async with self._database.write("lane.pause") as connection:
            lane = await _one(connection, tenant_id, name)
            if not await before(connection, lane):
                return
            changed = await lane_store.pause(
                connection, tenant_id, name, paused=True, note=note, actor=actor
            )
            await self._record(connection, lane, "lane.paused", actor, {"note": note})
        self.directory.remember(changed)

    async def resume(
        self, tenant_id: int, name: str, *, actor: str, before: BeforeChange[Lane] = always
    ) -> None:
        """Resume a paused lane."""
        async with self._database.write("lane.resume") as connection:
            lane = await _one(connection, tenant_id, name)
            if not await before(connection, lane):
                return
            changed = await lane_store.pause(connection, tenant_id, name, paused=False)
            await self._record(connection, lane, "lane.resumed", actor, {})
        self.directory.remember(changed)

    async def _record(
        self, connection: Connection, lane: Lane, kind: str, actor: str, data: Mapping[str, object]
    ) -> None:
        about = named(lane.tenant_id, "lane", lane.name)
        data = {"lane": lane.name, **data}
        await record_event(connection, about, kind, actor, data)


async def _one(connection: Connection, tenant_id: int, name: str) -> Lane:
    await lane_store.change_alone(connection, tenant_id)
    found = await lane_store.find(connection, [(tenant_id, name)])
    if not found:
        raise not_found("lane", name)
    return found[0]
