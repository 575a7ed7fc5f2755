"""Calls about tenants. Written by `make docs` from the endpoints."""

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.tenants import NewTenant, Tenant, TenantList
from postdate.client.operations import tenants as operations


class Tenants(Group):
    """What the API offers about tenants."""

    def create(self, *, name: str, idempotency_key: str | None = None) -> NewTenant:
        """Create a tenant and its first key, which is shown only now.

        For operators, with `X-Internal-Auth`. Tenants never see each other's things.
        `name`: 1 to 63 of a-z 0-9 _ -, beginning with a letter or digit.
        """
        return self._send(operations.CREATE_TENANT, body={"name": name}, key=idempotency_key)

    def list(self, *, page_size: int = 100) -> Iterator[Tenant]:
        """List the tenants, page by page until the end.

        For operators, with `X-Internal-Auth`.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_TENANTS, lambda page: page.tenants, query={"limit": page_size}
        )

    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> TenantList:
        """List the tenants.

        For operators, with `X-Internal-Auth`.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(operations.LIST_TENANTS, query={"limit": limit, "cursor": cursor})

    def disable(self, name: str, *, note: str) -> None:
        """Stop a tenant and take none of its keys any more.

        For operators: nothing of the tenant starts or settles any more, and nothing is lost.
        `note`: Why.
        """
        self._send(operations.DISABLE_TENANT, path={"name": name}, body={"note": note})

    def enable(self, name: str) -> None:
        """Take a tenant's keys again, and let it go on.

        For operators: undoes disabling; what is overdue runs as its policies say.
        """
        self._send(operations.ENABLE_TENANT, path={"name": name})
