"""Tenants, for the operator: create, list, disable, enable."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint, Reply
from postdate.api.http.page import PageQuery, next_cursor
from postdate.api.idempotency import run_once_per_key
from postdate.api.routes.halt import Note
from postdate.api.services import Services
from postdate.model.error import Code

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


class TenantList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tenants, by name."""

    tenants: list[TenantView]
    next_cursor: str | None


async def create_tenant(call: Call[Services, TenantBody, None]) -> Reply | msgspec.Struct:
    """Create a tenant with its first key."""
    name, tenants = call.body.name, call.services.tenant.change
    return await run_once_per_key(
        call,
        "tenant",
        lambda remember: tenants.open(name, OPERATOR, remember),
        lambda issued: NewTenant(tenant=name, key=issued.key),
        hide=lambda shown: msgspec.structs.replace(shown, key=None),
    )


async def list_tenants(call: Call[Services, Any, PageQuery]) -> TenantList:
    """List the tenants."""
    after = call.query.start(str, "")
    rows, following = await call.services.tenant.read.page(after, call.query.limit)
    shown = [
        TenantView(tenant=row.name, created_at=row.created_at, disabled_at=row.disabled_at)
        for row in rows
    ]
    return TenantList(tenants=shown, next_cursor=next_cursor(following))


async def disable_tenant(call: Call[Services, TenantDisableBody, None]) -> Reply:
    """Disable a tenant."""
    await call.services.halt.change.disable(call.text("name"), call.body.note, OPERATOR)
    return Reply()


async def enable_tenant(call: Call[Services, None, None]) -> Reply:
    """Enable a tenant."""
    await call.services.halt.change.enable(call.text("name"), OPERATOR)
    return Reply()


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="POST",
        path="/internal/tenants",
        idempotency="optional",
        handler=create_tenant,
        scope="internal",
        body=TenantBody,
        returns=NewTenant,
        status=201,
        summary="Create a tenant and its first key, which is shown only now",
        description="For operators, with `X-Internal-Auth`. Tenants never see each other's things.",
        errors=(Code.CONFLICT,),
        tag="tenants",
    ),
    Endpoint(
        method="GET",
        path="/internal/tenants",
        handler=list_tenants,
        scope="internal",
        query=PageQuery,
        returns=TenantList,
        summary="List the tenants",
        description="For operators, with `X-Internal-Auth`.",
        tag="tenants",
    ),
    Endpoint(
        method="POST",
        path="/internal/tenants/{name}/disable",
        handler=disable_tenant,
        scope="internal",
        body=TenantDisableBody,
        returns=None,
        status=204,
        summary="Stop a tenant and take none of its keys any more",
        description="For operators: nothing of the tenant starts or settles any more, and "
        "nothing is lost.",
        tag="tenants",
    ),
    Endpoint(
        method="POST",
        path="/internal/tenants/{name}/enable",
        handler=enable_tenant,
        scope="internal",
        returns=None,
        status=204,
        summary="Take a tenant's keys again, and let it go on",
        description="For operators: undoes disabling; what is overdue runs as its policies say.",
        tag="tenants",
    ),
]
