"""Pause and resume a lane."""

from typing import Final

from postdate.console.action import Action, Field
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.lane.spec import LanePauseBody


async def _pause(request: PageRequest) -> str:
    name: str = request.param("lane")
    note = request.form.get("note", "").strip()
    await request.services.lane.change.pause(request.actor, name, LanePauseBody(note=note or None))
    request.services.overview.forget(request.actor.tenant_id)
    return f"Lane {name} is paused: none of its jobs start until it is resumed."


async def _resume(request: PageRequest) -> str:
    name: str = request.param("lane")
    await request.services.lane.change.resume(request.actor, name)
    request.services.overview.forget(request.actor.tenant_id)
    return f"Lane {name} is resumed."


ACTIONS: Final = (
    Action(
        path="/lanes/{lane}/pause",
        scope=Scope.JOBS_WRITE,
        title="Pause lane",
        button="Pause",
        means="No job of this lane starts until it is resumed. Running jobs continue, and new jobs "
        "are still accepted.",
        back="/lanes",
        does=_pause,
        same=EquivalentCommand(
            operation="pause_lane",
            method_name="lanes.pause",
            command="lane pause {lane} --reason {note}",
            body=lambda typed: {"note": typed["note"]},
        ),
        fields=(Field(name="note", label="Reason", hint="the next person on call reads this"),),
        danger=True,
    ),
    Action(
        path="/lanes/{lane}/resume",
        scope=Scope.JOBS_WRITE,
        title="Resume lane",
        button="Resume",
        means="Jobs that became due meanwhile start as fast as the lane allows.",
        back="/lanes",
        does=_resume,
        same=EquivalentCommand(
            operation="resume_lane", method_name="lanes.resume", command="lane resume {lane}"
        ),
    ),
)
