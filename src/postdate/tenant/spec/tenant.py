"""Tenants as the operator asks for them and sees them."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from postdate.core.field import Created, Instant
from postdate.core.shape import Spec, View
from postdate.halt.spec import HaltNote

TENANT_RULE = "A tenant's name has 1 to 63 of a-z 0-9 _ - and starts with a letter or digit."

Tenant = Annotated[str, Meta(description="The tenant's name.", examples=["shop"])]


class TenantSpec(Spec, kw_only=True):
    """A new tenant."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)",
            description="1 to 63 of a-z 0-9 _ -, beginning with a letter or digit.",
            examples=["shop"],
            extra={"rule": TENANT_RULE},
        ),
    ]
    test: Annotated[
        bool,
        Meta(
            description="In test mode the tenant's clock stands still until it is advanced. "
            "This cannot be changed later.",
            examples=[True],
        ),
    ] = False
    clock_at: Annotated[
        Instant | None,
        Meta(
            description="The initial time of a test clock; the current time if null.",
            examples=["2031-01-01T00:00:00Z"],
        ),
    ] = None


class TenantDisableBody(Spec, kw_only=True):
    """Why it is disabled."""

    note: HaltNote


class TenantView(View, frozen=True):
    """A tenant."""

    tenant: Tenant
    created_at: Created
    disabled_at: Annotated[
        datetime | None,
        Meta(description="When it was disabled.", examples=["2031-01-02T09:00:00Z"]),
    ]
    test: Annotated[
        bool,
        Meta(
            description="Whether the tenant is in test mode: its time stands still until its "
            "clock is advanced.",
            examples=[False],
        ),
    ]


class NewTenant(View, frozen=True):
    """A tenant and its first key, with the scope admin.

    The key is shown only now: a repeated answer has null in its place.
    """

    tenant: Tenant
    key: Annotated[
        str | None, Meta(description="The key itself: shown this once.", examples=["pd_ab12…"])
    ]
