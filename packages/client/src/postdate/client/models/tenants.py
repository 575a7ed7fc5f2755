"""Models of tenants. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct


class NewTenant(Struct, frozen=True, kw_only=True):
    """A tenant and its first key, with the scope admin."""

    tenant: str
    key: str | None


class Tenant(Struct, frozen=True, kw_only=True):
    """A tenant."""

    tenant: str
    created_at: datetime
    disabled_at: datetime | None
    test: bool


class TenantList(Struct, frozen=True, kw_only=True):
    """A page of tenants, by name."""

    tenants: list[Tenant]
    next_cursor: str | None
