"""Tenants, for the operator: create, list, disable, enable."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.shape import shaped
from postdate.halt.spec import Note
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.payment.spec.payment import Instant
from postdate.tenant.change.tenant import TenantMode

ROUTES: Final = Routes("tenants")

OPERATOR: Final = "internal"
"""The actor of what is done with the operator's token."""


class TenantBody(Body, kw_only=True):
    """A new tenant."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)",
            description="1 to 63 of a-z 0-9 _ -, beginning with a letter or digit.",
        ),
    ]
    test: Annotated[
        bool,
        Meta(
            description="In test mode the tenant's clock stands still until it is advanced. "
            "This cannot be changed later."
        ),
    ] = False
    clock_at: Annotated[
        Instant | None,
        Meta(description="The initial time of a test clock; the current time if null."),
    ] = None


class TenantDisableBody(Body, kw_only=True):
    """Why it is disabled."""

    note: Note


class NewTenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant and its first key, with the scope admin.

    The key is shown only now: a repeated answer has null in its place.
    """

    tenant: str
    key: str | None


class TenantView(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant."""

    tenant: str
    created_at: datetime
    disabled_at: datetime | None
    test: bool


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tenants, by name."""

    tenants: list[TenantView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/internal/tenants",
    "internal",
    returns=NewTenant,
    idempotency="optional",
    status=201,
)
async def create_tenant(call: Call[Services, TenantBody, None]) -> Reply | msgspec.Struct:
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


@ROUTES.add("GET", "/internal/tenants", "internal")
async def list_tenants(call: Call[Services, Any, PageQuery]) -> TenantList:
    """List the tenants.

    For operators, with `X-Internal-Auth`.
    """
    after = call.query.start(str, "")
    rows, following = await call.services.tenant.read.page(after, call.query.limit)
    shown = [shaped(TenantView, row, tenant=row.name) for row in rows]
    return TenantList(tenants=shown, next_cursor=next_cursor(following))


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
