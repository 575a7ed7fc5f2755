"""Run-time settings of a tenant: list, set, clear."""

from typing import Annotated, Any, Final

import msgspec

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.setting.table import Value
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.routes import Routes
from postdate.setting.view import SettingView
from postdate.words.error import Code

ROUTES: Final = Routes("settings")


class SettingList(msgspec.Struct, frozen=True):
    """Every setting."""

    settings: list[SettingView]


class SettingBody(Body, kw_only=True):
    """The value to set."""

    value: Annotated[Value, msgspec.Meta(description="A number, a string, true or false.")]


@ROUTES.add("GET", "/settings", Scope.ADMIN)
async def list_settings(call: Call[Services, Any, None]) -> SettingList:
    """List the run-time settings of the tenant, and who set each.

    Each has its default, its current value, and how the tenant may change it.
    """
    return SettingList(await call.services.setting.read.page(call.actor.tenant_id))


@ROUTES.add("PUT", "/settings/{name}", Scope.ADMIN, errors=(Code.UNKNOWN_SETTING,))
async def put_setting(call: Call[Services, SettingBody, None]) -> SettingList:
    """Set a value for the tenant; every node applies it within five seconds.

    `tenant_may` says what is allowed: a value that is not looser than the one the operator has set
    for the tenant or for all, or than the default. Otherwise the answer is 403.
    """
    await call.services.setting.change.put_own(call.actor, call.text("name"), call.body.value)
    return await list_settings(call)


@ROUTES.add("DELETE", "/settings/{name}", Scope.ADMIN, errors=(Code.UNKNOWN_SETTING,))
async def clear_setting(call: Call[Services, None, None]) -> Reply:
    """Clear the tenant's value of a setting; the operator's value stays.

    The operator's value, or the default, applies again within seconds.
    """
    await call.services.setting.change.clear_own(call.actor, call.text("name"))
    return Reply()
