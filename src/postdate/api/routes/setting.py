"""Run-time settings of a tenant: list, set, clear."""

from typing import Annotated, Any, Final

import msgspec

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint, Reply
from postdate.api.services import Services
from postdate.model.error import Code
from postdate.model.setting.table import Value
from postdate.model.tenant.identity import Scope
from postdate.views.setting import SettingView


class SettingList(msgspec.Struct, frozen=True):
    """Every setting."""

    settings: list[SettingView]


class SettingBody(Body, kw_only=True):
    """The value to set."""

    value: Annotated[Value, msgspec.Meta(description="A number, a text, true or false.")]


async def list_settings(call: Call[Services, Any, None]) -> SettingList:
    """Answer with every setting and the value that holds for the tenant."""
    return SettingList(await call.services.setting.read.page(call.actor.tenant_id))


async def put_setting(call: Call[Services, SettingBody, None]) -> SettingList:
    """Set a value for the tenant."""
    await call.services.setting.change.put_own(call.actor, call.text("name"), call.body.value)
    return await list_settings(call)


async def clear_setting(call: Call[Services, None, None]) -> Reply:
    """Return to what the operator allows."""
    await call.services.setting.change.clear_own(call.actor, call.text("name"))
    return Reply()


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="GET",
        path="/settings",
        handler=list_settings,
        scope=Scope.ADMIN,
        returns=SettingList,
        summary="List the run-time settings of the tenant, and who has set each",
        description="Each has its default, the value that holds, and what the tenant itself may "
        "do with it.",
        tag="settings",
    ),
    Endpoint(
        method="PUT",
        path="/settings/{name}",
        handler=put_setting,
        scope=Scope.ADMIN,
        body=SettingBody,
        returns=SettingList,
        summary="Set a value for the tenant; every node follows within five seconds",
        description="`tenant_may` says what is allowed: a value that is not looser than what the "
        "operator has set for the tenant or for all, or than the default. Beyond that comes 403.",
        tag="settings",
        errors=(Code.UNKNOWN_SETTING, Code.INVALID_FIELD),
    ),
    Endpoint(
        method="DELETE",
        path="/settings/{name}",
        handler=clear_setting,
        scope=Scope.ADMIN,
        returns=None,
        status=204,
        summary="Forget what the tenant has set; what the operator has set stays",
        description="The value of the operator, or the default, holds again within seconds.",
        tag="settings",
        errors=(Code.NOT_FOUND, Code.UNKNOWN_SETTING),
    ),
]
