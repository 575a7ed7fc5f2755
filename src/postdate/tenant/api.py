"""Tenants, for the operator: create, list, disable, enable.

By hand but for the list: the author is no key of a tenant, and a tenant is disabled by halting it.
"""

from typing import Final

import msgspec

from postdate.api.services import Services
from postdate.http.endpoint import Call, Reply
from postdate.intake.answer_once import run_once_per_key
from postdate.resource.endpoints import ServedClass, serve
from postdate.tenant.change.tenant import TenantMode
from postdate.tenant.spec.tenant import NewTenant, TenantDisableBody, TenantSpec
from postdate.tenant.view import TenantViews

ROUTES: Final = serve("tenants", ServedClass(TenantViews, lambda services: services.tenant.read))

OPERATOR: Final = "internal"
"""The actor of what is done with the operator's token."""


@ROUTES.add(
    "POST",
    "/internal/tenants",
    "internal",
    returns=NewTenant,
    idempotency="optional",
    status=201,
)
async def create_tenant(call: Call[Services, TenantSpec, None]) -> Reply | msgspec.Struct:
    """Create a tenant and its first key, which is shown only now.

    For operators, with `X-Internal-Auth`. Tenants never see each other's data.
    """
    name, tenants = call.body.name, call.services.tenant.change
    mode = TenantMode(test=call.body.test, clock_at=call.body.clock_at)
    return await run_once_per_key(
        call,
        "tenant",
        lambda remember: tenants.open(name, OPERATOR, remember, mode),
        lambda issued: NewTenant(tenant=name, key=issued.key),
        hide=lambda shown: msgspec.structs.replace(shown, key=None),
    )


@ROUTES.add("POST", "/internal/tenants/{name}/disable", "internal")
async def disable_tenant(call: Call[Services, TenantDisableBody, None]) -> Reply:
    """Disable a tenant: stop it and refuse all its keys.

    For operators: none of the tenant's work starts or settles, and nothing is lost.
    """
    await call.services.halt.change.disable(call.text("name"), call.body.note, OPERATOR)
    return Reply()


@ROUTES.add("POST", "/internal/tenants/{name}/enable", "internal")
async def enable_tenant(call: Call[Services, None, None]) -> Reply:
    """Enable a disabled tenant.

    For operators: accepts its keys again; overdue work runs according to its policies.
    """
    await call.services.halt.change.enable(call.text("name"), OPERATOR)
    return Reply()
