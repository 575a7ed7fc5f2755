"""`postdate key`: the keys of your tenant; with --tenant the operator's, past the server."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from postdate.cli.noun import noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, Sugar
from postdate.cli.output import UsageError, show
from postdate.cli.sugar import extra

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from postdate.database.connection.database import Database

TENANT: Final = extra(
    "tenant", str | None, "A key of this tenant: connects to the database instead of the server."
)
OVERLAP_SECONDS: Final = 86400.0


def _in_database(act: "Callable[[Database, str, GivenOptions], Awaitable[Any]]") -> Sugar:
    """Do it in the database where a tenant is named, otherwise by a call."""

    def run(call: CommandCall, given: GivenOptions) -> None:
        if "tenant" not in given:
            call.show()
            return
        from postdate.cli.database import with_database

        show(with_database(lambda database: act(database, given["tenant"], call.fields)))

    return Sugar(adds=(TENANT,), act=run)


async def _create(database: "Database", tenant: str, fields: GivenOptions) -> Any:
    from postdate.tenant.change.tenant import KeyLimits, Tenants

    limits = KeyLimits(
        accounts=fields.get("accounts"),
        max_amount=fields.get("max_amount"),
        expires_at=_instant(fields.get("expires_at")),
    )
    tenants = Tenants(database)
    return await tenants.issue(tenant, fields["scopes"], note=fields.get("note", ""), limits=limits)


async def _list(database: "Database", tenant: str, _: GivenOptions) -> Any:
    from postdate.cli.database import MAX_ROWS, tenant_number
    from postdate.key.store import key as key_store

    tenant_id = await tenant_number(database, tenant)
    async with database.connection() as connection:
        return await key_store.page(connection, tenant_id, UUID(int=0), MAX_ROWS)


async def _revoke(database: "Database", tenant: str, fields: GivenOptions) -> Any:
    from postdate.tenant.change.tenant import Tenants

    at = await Tenants(database).revoke(tenant, _key_id(fields))
    return {"key_id": fields["key_id"], "revoked_at": at}


async def _rotate(database: "Database", tenant: str, fields: GivenOptions) -> Any:
    from postdate.tenant.change.tenant import Tenants

    overlap = fields.get("overlap_seconds", OVERLAP_SECONDS)
    return await Tenants(database).rotate(tenant, _key_id(fields), overlap)


def _key_id(fields: GivenOptions) -> UUID:
    try:
        return UUID(fields["key_id"])
    except ValueError:
        raise UsageError(f"{fields['key_id']!r} is no id of a key") from None


def _instant(text: str | None) -> datetime | None:
    """Read an instant; without a zone it is one in UTC."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no instant such as 2030-01-01T00:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


key_app = noun_app(
    "key",
    {
        "create_key": _in_database(_create),
        "list_keys": _in_database(_list),
        "revoke_key": _in_database(_revoke),
        "rotate_key": _in_database(_rotate),
    },
)
