"""Calls about tenants. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from datetime import datetime

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.tenants import NewTenant, Tenant, TenantList


class Tenants(Group[K]):
    """What the API offers about tenants."""

    @call(
        "list_tenants",
        "GET",
        "/internal/tenants",
        internal=True,
        columns=("tenant", "test", "created_at", "disabled_at"),
    )
    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> TenantList:
        """List the tenants.

        For operators, with `X-Internal-Auth`.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "tenants")
    def list(self, *, page_size: int = 100) -> Iterator[Tenant]:
        """List the tenants, page by page until the end.

        For operators, with `X-Internal-Auth`.
        """

    @call("create_tenant", "POST", "/internal/tenants", internal=True)
    def create(
        self,
        *,
        name: str,
        test: bool | UnsetType = UNSET,
        clock_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> NewTenant:
        """Create a tenant and its first key, which is shown only now.

        For operators, with `X-Internal-Auth`. Tenants never see each other's data.
        `name`: 1 to 63 of a-z 0-9 _ -, beginning with a letter or digit.
        `test`: In test mode the tenant's clock stands still until it is advanced. This cannot be
        changed later.
        `clock_at`: The initial time of a test clock; the current time if null.
        """

    @call("disable_tenant", "POST", "/internal/tenants/{name}/disable", internal=True)
    def disable(self, name: str, *, note: str) -> None:
        """Disable a tenant: stop it and refuse all its keys.

        For operators: none of the tenant's work starts or settles, and nothing is lost.
        `name`: The name by which it is known.
        `note`: Why, in a few words.
        """

    @call("enable_tenant", "POST", "/internal/tenants/{name}/enable", internal=True)
    def enable(self, name: str) -> None:
        """Enable a disabled tenant.

        For operators: accepts its keys again; overdue work runs according to its policies.
        `name`: The name by which it is known.
        """
