"""Models of tenants. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct


class Tenant(Struct, frozen=True, kw_only=True):
    """A tenant."""

    tenant: str
    """The tenant's name."""
    created_at: datetime
    """When it was created."""
    disabled_at: datetime | None
    """When it was disabled."""
    test: bool
    """Whether the tenant is in test mode: its time stands still until its clock is advanced."""


class TenantList(Struct, frozen=True, kw_only=True):
    """A page of tenants."""

    tenants: list[Tenant]
    """The tenants of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""


class NewTenant(Struct, frozen=True, kw_only=True):
    """A tenant and its first key, with the scope admin."""

    tenant: str
    """The tenant's name."""
    key: str | None
    """The key itself: shown this once."""
