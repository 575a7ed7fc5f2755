"""Lanes: list, show, change, pause, resume."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.lane.change import LaneChange
from postdate.lane.view import LaneView
from postdate.words.error import Code, refuse

ROUTES: Final = Routes("lanes")


class LaneList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lanes, by name."""

    lanes: list[LaneView]
    next_cursor: str | None


class LaneBody(Body, kw_only=True):
    """New values; what is absent stays as it is, null takes a limit away."""

    weight: (
        Annotated[int, Meta(ge=1, le=100, description="Its share relative to other lanes.")]
        | UnsetType
    ) = UNSET
    width: (
        Annotated[int, Meta(ge=1, le=64, description="Number of buckets it uses; can only grow.")]
        | UnsetType
    ) = UNSET
    max_running: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType | None = UNSET
    rate_per_second: Annotated[float, Meta(ge=0.001, le=1_000_000)] | UnsetType | None = UNSET


class LanePauseBody(Body, kw_only=True):
    """Why it is paused."""

    note: Annotated[str, Meta(max_length=500)] | None = None


@ROUTES.add("GET", "/lanes", Scope.JOBS_READ)
async def list_lanes(call: Call[Services, None, PageQuery]) -> LaneList:
    """List the lanes.

    With what waits, is ready and runs, and the limits that hold.
    """
    after = call.query.start(str, "")
    lanes, following = await call.services.lane.read.page(
        call.actor.tenant_id, after, call.query.limit
    )
    return LaneList(lanes=lanes, next_cursor=next_cursor(following))


@ROUTES.add("GET", "/lanes/{lane}", Scope.JOBS_READ)
async def show_lane(call: Call[Services, Any, None]) -> LaneView:
    """Show a lane.

    With what waits, is ready and runs, and the limits that hold.
    """
    name = call.text("lane")
    return existing(await call.services.lane.read.find(call.actor.tenant_id, name), "lane", name)


@ROUTES.add("PATCH", "/lanes/{lane}", Scope.JOBS_WRITE)
async def change_lane(call: Call[Services, LaneBody, None]) -> LaneView:
    """Change the weight, width and limits of a lane.

    The weight decides when lanes compete; limits apply across all nodes.
    """
    actor, change = call.actor, shaped(LaneChange, call.body)
    if change == LaneChange():
        raise refuse(Code.INVALID_FIELD, "Give at least one field to change.")
    await call.services.lane.change.change(actor.tenant_id, call.text("lane"), change, actor.key_id)
    return await show_lane(call)


@ROUTES.add("POST", "/lanes/{lane}/pause", Scope.JOBS_WRITE)
async def pause_lane(call: Call[Services, LanePauseBody, None]) -> LaneView:
    """Pause a lane: running jobs continue, no other job starts.

    New jobs are still accepted; waiting jobs keep their due instants.
    """
    actor, note = call.actor, call.body.note
    await call.services.lane.change.pause(
        actor.tenant_id, call.text("lane"), note=note, actor=actor.key_id
    )
    return await show_lane(call)


@ROUTES.add("POST", "/lanes/{lane}/resume", Scope.JOBS_WRITE)
async def resume_lane(call: Call[Services, None, None]) -> LaneView:
    """Resume a paused lane.

    Jobs that came due meanwhile start immediately, within the lane's limits.
    """
    actor = call.actor
    await call.services.lane.change.resume(actor.tenant_id, call.text("lane"), actor=actor.key_id)
    return await show_lane(call)
