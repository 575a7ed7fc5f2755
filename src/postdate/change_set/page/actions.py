"""Apply and undo a change set."""

from typing import Final

from postdate.console.action import Action
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest


async def _apply(request: PageRequest) -> str:
    sets = request.services.change_set
    done = await sets.apply(request.actor, request.uuid("change_set_id"))
    request.services.overview.forget(request.actor.tenant_id)
    many = len(done.steps)
    return f"{many} {'change was' if many == 1 else 'changes were'} made. Undo reverts them."


async def _undo(request: PageRequest) -> str:
    sets = request.services.change_set
    done = await sets.undo(request.actor, request.uuid("change_set_id"))
    request.services.overview.forget(request.actor.tenant_id)
    if any(step.left for step in done.steps):
        return "The changes were undone, except for what was left as it is: see below."
    return "The changes were undone."


ACTIONS: Final = (
    Action(
        path="/change-sets/{change_set_id:uuid}/apply",
        scope=None,
        title="Apply change set",
        button="Apply",
        means="The changes are made one after the other. Jobs and payments that have begun or "
        "ended meanwhile are left alone. If it is interrupted, apply it again to "
        "continue.",
        back="/change-sets/{change_set_id}",
        does=_apply,
        danger=True,
        same=EquivalentCommand(
            operation="apply_change_set",
            method_name="change_sets.apply",
            command="change-set apply {change_set_id}",
        ),
    ),
    Action(
        path="/change-sets/{change_set_id:uuid}/undo",
        scope=None,
        title="Undo change set",
        button="Undo the changes",
        means="The changes are taken back, the last first. Refused once a job or payment that was "
        "moved has been executed; a cancelled one is created again.",
        back="/change-sets/{change_set_id}",
        does=_undo,
        danger=True,
        same=EquivalentCommand(
            operation="undo_change_set",
            method_name="change_sets.undo",
            command="change-set undo {change_set_id}",
        ),
    ),
)
