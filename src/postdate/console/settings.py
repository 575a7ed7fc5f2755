"""Run-time settings of the tenant, and the key that is signed in."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from postdate.console.action import Action, Field
from postdate.console.visit import Visit
from postdate.model.identity import Scope


async def settings_page(visit: Visit) -> Response:
    """List every setting with the value that holds."""
    visit.need(Scope.ADMIN)
    found = await visit.services.setting_views.page(visit.who.tenant_id)
    return visit.page("settings.html", settings=found)


def _value(text: str) -> Any:
    """Read numbers and flags as such; anything else is text."""
    try:
        return msgspec.json.decode(text, type=int | float | bool)
    except msgspec.DecodeError:
        return text


async def _put(visit: Visit) -> str:
    name: str = visit.param("name")
    text = visit.form.get("value", "").strip()
    await visit.services.settings.put(
        visit.who.tenant_id, name, _value(text), changed_by=visit.who.key_id
    )
    return f"{name} is set to {text}. Every node follows within five seconds."


async def _clear(visit: Visit) -> str:
    name: str = visit.param("name")
    await visit.services.settings.clear(visit.who.tenant_id, name, changed_by=visit.who.key_id)
    return f"{name} follows the default again, on every node within five seconds."


ACTIONS: Final = (
    Action(
        path="/settings/{name}/set",
        scope=Scope.ADMIN,
        title="Set",
        button="Set",
        means="Holds for this tenant, without a restart.",
        back=lambda _: "/settings",
        does=_put,
        fields=(Field(name="value", label="Value"),),
    ),
    Action(
        path="/settings/{name}/clear",
        scope=Scope.ADMIN,
        title="Clear",
        button="Clear",
        means="What was set for this tenant is forgotten; everybody's value holds again.",
        back=lambda _: "/settings",
        does=_clear,
    ),
)
