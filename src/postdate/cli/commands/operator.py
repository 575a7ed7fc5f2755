"""Commands of the operator that go straight to the database: migrate, key, setting, node."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import cyclopts
import msgspec
import uvloop

from postdate.cli.output import progress, show, wants_json
from postdate.intake.tenant.setting import SettingChanges
from postdate.intake.tenant.tenant import KeyLimits, Tenants
from postdate.model.error import Code, refuse
from postdate.model.setting.table import SETTINGS
from postdate.node import database as place
from postdate.node import log
from postdate.node.settings import Settings, load
from postdate.store import migrate as migrations
from postdate.store.connection.database import Database
from postdate.store.operate import node as node_store
from postdate.store.tenant import key as key_store
from postdate.store.tenant import setting as setting_store
from postdate.store.tenant import tenant as tenant_store

T = TypeVar("T")
PAGE = 1000

key_app = cyclopts.App(name="key", help="Issue, list, rotate and revoke API keys.")
node_app = cyclopts.App(name="node", help="List the processes of the cluster.")
setting_app = cyclopts.App(name="setting", help="Change run-time settings without a restart.")


def with_database(act: Callable[[Database], Awaitable[T]]) -> T:
    """Open the database that is running, act, close it."""

    async def run() -> T:
        async with place.opened(settings) as database:
            return await act(database)

    settings = _settings()
    return uvloop.run(run())


def _settings() -> Settings:
    settings = load()
    log.configure("warning", settings.log_format)
    return settings


async def tenant_number(database: Database, name: str) -> int:
    """Give the number of a tenant, refusing an unknown name."""
    async with database.connection() as connection:
        found = await tenant_store.find(connection, name)
    if found is None:
        raise refuse(Code.UNKNOWN_TENANT, f"There is no tenant {name}.", "tenant")
    return found


def migrate(*, dry_run: bool = False) -> None:
    """Bring the schema up to date; with --dry-run only say what would be applied."""

    async def run() -> list[str]:
        address = await place.running(settings)
        if address is not None:
            return await apply(address.owner)
        async with place.serving(settings, attach=False) as own:
            return await apply(own.owner)

    async def apply(owner: str) -> list[str]:
        with progress("migrating", None) as step:
            return await migrations.migrate(owner, dry_run=dry_run, step=step)

    settings = _settings()
    names = uvloop.run(run())
    key = "pending" if dry_run else "applied"
    show({key: names} if wants_json() else [{key: name} for name in names])


@key_app.command(name="create")
def key_create(
    *,
    tenant: str = "default",
    scope: list[str],
    note: str = "",
    account: list[str] | None = None,
    max_amount: int | None = None,
    expires_at: datetime | None = None,
) -> None:
    """Issue a key; it is shown only now.

    Parameters
    ----------
    tenant
        The tenant it belongs to.
    scope
        What it may do; may be given several times.
    note
        What it is for.
    account
        Limit it to these accounts.
    max_amount
        Limit the amount of one payment.
    expires_at
        When it ends.

    """
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
            return await key_store.page(connection, tenant_id, UUID(int=0), PAGE)

    show(with_database(run))


@key_app.command(name="revoke")
def key_revoke(key_id: UUID, *, tenant: str = "default") -> None:
    """End a key; every node notices within five seconds."""
    at = with_database(lambda database: Tenants(database).revoke(tenant, key_id))
    show({"key_id": str(key_id), "revoked_at": at})


@key_app.command(name="rotate")
def key_rotate(key_id: UUID, *, tenant: str = "default", overlap_seconds: float = 86400.0) -> None:
    """Put a new key, shown only now, in the place of one that ends after the overlap."""
    issued = with_database(
        lambda database: Tenants(database).rotate(tenant, key_id, overlap_seconds)
    )
    show(issued)


@node_app.command(name="list")
def node_list() -> None:
    """List the nodes that have not signed off; one that is not live fell silent."""

    async def run(database: Database) -> list[dict[str, Any]]:
        async with database.connection() as connection:
            live = {row.node_id for row in await node_store.live(connection)}
            rows = await node_store.live(connection, node_store.FORGET_SECONDS)
        return [msgspec.structs.asdict(row) | {"live": row.node_id in live} for row in rows]

    show(with_database(run))


@setting_app.command(name="list")
def setting_list(*, tenant: str | None = None) -> None:
    """List every run-time setting with its default and what is set for a tenant or for all."""

    async def run(database: Database) -> list[setting_store.SettingRow]:
        tenant_id = await tenant_number(database, tenant) if tenant else 0
        async with database.connection() as connection:
            return await setting_store.page(connection, tenant_id)

    rows = with_database(run)
    stored = {row.name: row.value for row in rows if row.operator}
    own = {row.name: row.value for row in rows if not row.operator}
    show(
        [
            {
                "name": name,
                "default": setting.default,
                "set": stored.get(name),
                "by_tenant": own.get(name),
                "tenant_may": setting.tenant_may.value,
            }
            for name, setting in SETTINGS.items()
            if setting.per_tenant or not tenant
        ]
    )


@setting_app.command(name="set")
def setting_set(name: str, value: str, *, tenant: str | None = None) -> None:
    """Set a value (a number, true, false, or a text) for a tenant or for all."""

    async def run(database: Database) -> None:
        tenant_id = await tenant_number(database, tenant) if tenant else 0
        await SettingChanges(database).put(tenant_id, name, _value(value))

    with_database(run)
    show({"name": name, "value": _value(value)})


@setting_app.command(name="clear")
def setting_clear(name: str, *, tenant: str | None = None) -> None:
    """Return to the default."""

    async def run(database: Database) -> None:
        tenant_id = await tenant_number(database, tenant) if tenant else 0
        await SettingChanges(database).clear(tenant_id, name)

    with_database(run)
    show({"name": name, "cleared": True})


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
