"""`postdate key`: issue, list, rotate and revoke API keys."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import cyclopts
from cyclopts import Parameter

from postdate.cli.database import MAX_ROWS, tenant_number, with_database
from postdate.cli.output import show
from postdate.database.connection.database import Database
from postdate.key.store import key as key_store
from postdate.tenant.change.tenant import KeyLimits, Tenants

key_app = cyclopts.App(name="key", help="Issue, list, rotate and revoke API keys.")


@key_app.command(name="create")
def key_create(
    *,
    tenant: Annotated[str, Parameter(help="The tenant it belongs to.")] = "default",
    scope: Annotated[list[str], Parameter(help="What the key may do; may be repeated.")],
    note: Annotated[str, Parameter(help="What it is for.")] = "",
    account: Annotated[list[str] | None, Parameter(help="Limit it to these accounts.")] = None,
    max_amount: Annotated[int | None, Parameter(help="Limit the amount of one payment.")] = None,
    expires_at: Annotated[datetime | None, Parameter(help="When it ends.")] = None,
) -> None:
    """Create a key; it is shown only now."""
    limits = KeyLimits(accounts=account, max_amount=max_amount, expires_at=expires_at)
    issued = with_database(
        lambda database: Tenants(database).issue(tenant, scope, note=note, limits=limits)
    )
    show(issued)


@key_app.command(name="list")
def key_list(*, tenant: str = "default") -> None:
    """List a tenant's keys."""

    async def run(database: Database) -> list[key_store.KeyRow]:
        tenant_id = await tenant_number(database, tenant)
        async with database.connection() as connection:
            return await key_store.page(connection, tenant_id, UUID(int=0), MAX_ROWS)

    show(with_database(run))


@key_app.command(name="revoke")
def key_revoke(key_id: UUID, *, tenant: str = "default") -> None:
    """Revoke a key; every node notices within five seconds."""
    at = with_database(lambda database: Tenants(database).revoke(tenant, key_id))
    show({"key_id": str(key_id), "revoked_at": at})


@key_app.command(name="rotate")
def key_rotate(key_id: UUID, *, tenant: str = "default", overlap_seconds: float = 86400.0) -> None:
    """Rotate a key: create its successor, shown only now; the old key ends after the overlap."""
    issued = with_database(
        lambda database: Tenants(database).rotate(tenant, key_id, overlap_seconds)
    )
    show(issued)
