"""Run-time settings of the tenant, and the key that is signed in."""

from typing import Any, Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.action import Action, Field
from postdate.console.keys import status_of
from postdate.console.same import Same
from postdate.console.visit import Visit, further
from postdate.model.identity import Scope

KEYS: Final = 50
"""How many keys a page shows."""


class SettingsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page: from which key on."""

    after: UUID | None = None


async def settings_page(visit: Visit) -> Response:
    """List every setting with the value that holds, and the keys."""
    visit.need(Scope.ADMIN)
    query, tenant_id, now = visit.query(SettingsQuery), visit.who.tenant_id, visit.now
    found, following = await visit.services.key_views.page(
        tenant_id, query.after or UUID(int=0), KEYS
    )
    return visit.page(
        "settings.html",
        settings=await visit.services.setting_views.page(tenant_id),
        keys=found,
        ending=[key for key in found if status_of(key, now) == "ENDING"],
        key_status=lambda key: status_of(key, now),
        query=query,
        following=following and further(visit.request, after=following),
    )


def _value(text: str) -> Any:
    """Read numbers and flags as such; anything else is text."""
    try:
        return msgspec.json.decode(text, type=int | float | bool)
    except msgspec.DecodeError:
        return text


async def _put(visit: Visit) -> str:
    name: str = visit.param("name")
    text = visit.form.get("value", "").strip()
    await visit.services.settings.put_own(visit.who, name, _value(text))
    return f"{name} is set to {text}. Every node follows within five seconds."


async def _clear(visit: Visit) -> str:
    name: str = visit.param("name")
    await visit.services.settings.clear_own(visit.who, name)
    return f"{name} follows the operator's value again, on every node within five seconds."


ACTIONS: Final = (
    Action(
        path="/settings/{name}/set",
        scope=Scope.ADMIN,
        title="Set",
        button="Set",
        means="Holds for this tenant, without a restart, within what the operator allows.",
        back=lambda _: "/settings",
        does=_put,
        same=Same("PUT /settings/{name}", '{"value": <value>}'),
        fields=(Field(name="value", label="Value"),),
    ),
    Action(
        path="/settings/{name}/clear",
        scope=Scope.ADMIN,
        title="Clear",
        button="Clear",
        means="What this tenant has set is forgotten; the operator's value holds again.",
        back=lambda _: "/settings",
        does=_clear,
        same=Same("DELETE /settings/{name}"),
    ),
)
