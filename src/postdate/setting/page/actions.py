"""Set or clear a run-time setting of the tenant."""

from typing import Final

from postdate.console.action import Action, Field
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest, scalar
from postdate.core.identity import Scope


async def _put(request: PageRequest) -> str:
    name: str = request.param("name")
    text = request.form.get("value", "").strip()
    await request.services.setting.change.put_own(request.actor, name, scalar(text))
    return f"{name} is set to {text}. It takes effect on every node within five seconds."


async def _clear(request: PageRequest) -> str:
    name: str = request.param("name")
    await request.services.setting.change.clear_own(request.actor, name)
    return f"{name} uses the operator's value again, on every node within five seconds."


ACTIONS: Final = (
    Action(
        path="/settings/{name}/set",
        scope=Scope.ADMIN,
        title="Set",
        button="Set",
        means="Applies to this tenant, without a restart, within what the operator allows.",
        back="/settings",
        does=_put,
        same=EquivalentCommand(
            operation="put_setting",
            method_name="settings.set",
            body=lambda typed: {"value": scalar(typed["value"])},
        ),
        fields=(Field(name="value", label="Value"),),
    ),
    Action(
        path="/settings/{name}/clear",
        scope=Scope.ADMIN,
        title="Clear",
        button="Clear",
        means="Removes this tenant's value; the operator's value applies again.",
        back="/settings",
        does=_clear,
        same=EquivalentCommand(operation="clear_setting", method_name="settings.clear"),
    ),
)
