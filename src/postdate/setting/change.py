"""Change run-time settings: the operator any, a tenant within what the operator allows."""

from typing import Any

from postdate.audit.spec import CLI
from postdate.core.identity import Identity
from postdate.core.setting.setting import Stored, get_setting, validate
from postdate.core.setting.table import Setting, TenantMay, Value
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import named, record_event
from postdate.intake.before_change import BeforeChange, always
from postdate.setting import store as setting_store
from postdate.setting.store import SettingRow
from postdate.words.error import Code, RefusedError, refuse


class SettingChanges:
    """Sets and clears values; every node applies a change within five seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, tenant_id: int, name: str, value: Any, *, changed_by: str = CLI) -> None:
        """Set a value as the operator, for a tenant or with tenant 0 for all."""
        stored = Stored(tenant_id, name, validate(name, value, tenant_id=tenant_id))
        async with self._database.write() as connection:
            await self._put(connection, stored, changed_by)

    async def clear(self, tenant_id: int, name: str, *, changed_by: str = CLI) -> None:
        """Clear the operator's value."""
        get_setting(name)
        async with self._database.write() as connection:
            await self._clear(connection, tenant_id, name, changed_by, operator=True)

    async def put_own(
        self,
        actor: Identity,
        name: str,
        value: Any,
        before: BeforeChange[SettingRow | None] = always,
    ) -> None:
        """Set a value for the tenant that asks, at least as tight as the operator allows."""
        async with self._database.write("setting.put_own") as connection:
            stored = await check_own(connection, actor, name, value)
            if await before(connection, await _lock_own(connection, actor, name)):
                await self._put(connection, stored, actor.key_id)

    async def clear_own(
        self, actor: Identity, name: str, before: BeforeChange[SettingRow | None] = always
    ) -> None:
        """Clear the tenant's own value; the operator's value stays."""
        _tenant_setting(name)
        async with self._database.write("setting.clear_own") as connection:
            if not await before(connection, await _lock_own(connection, actor, name)):
                return
            await self._clear(connection, actor.tenant_id, name, actor.key_id, operator=False)

    async def _put(self, connection: Connection, stored: Stored, actor: str) -> None:
        await setting_store.put(connection, stored, actor)
        await self._record(connection, stored.tenant_id, stored.name, stored.value, actor)

    async def _clear(
        self, connection: Connection, tenant_id: int, name: str, actor: str, *, operator: bool
    ) -> None:
        if not await setting_store.delete(connection, tenant_id, name, operator=operator):
            raise refuse(Code.NOT_FOUND, f"No value is set for {name}.", "name")
        await self._record(connection, tenant_id, name, None, actor)

    async def _record(
        self, connection: Connection, tenant_id: int, name: str, value: Value | None, actor: str
    ) -> None:
        about = named(tenant_id, "setting", name)
        data = {"name": name, "value": value}
        await record_event(connection, about, "setting.changed", actor, data)


async def check_own(connection: Connection, actor: Identity, name: str, value: Any) -> Stored:
    """Refuse a value that the tenant may not set, or return it as it is stored."""
    setting = _tenant_setting(name)
    stored = Stored(actor.tenant_id, name, _valid(actor, name, value), operator=False)
    found = await setting_store.allowed(connection, actor.tenant_id, name)
    allowed = setting.default if found is None else found
    if not setting.as_tight(stored.value, allowed):
        raise _too_loose(name, setting, allowed)
    return stored


async def _lock_own(connection: Connection, actor: Identity, name: str) -> SettingRow | None:
    """Return the tenant's own values, locked against other changes until our commit."""
    await setting_store.change_alone(connection, actor.tenant_id)
    rows = await setting_store.page(connection, actor.tenant_id)
    return next((row for row in rows if row.name == name and not row.operator), None)


def _tenant_setting(name: str) -> Setting:
    """Return a setting that tenants may set."""
    setting = get_setting(name)
    if setting.tenant_may is TenantMay.NOTHING:
        raise refuse(Code.FORBIDDEN, f"Only the operator can set {name}.", "name")
    return setting


def _valid(actor: Identity, name: str, value: Any) -> Value:
    return validate(name, value, tenant_id=actor.tenant_id)


def _too_loose(name: str, setting: Setting, allowed: Value) -> RefusedError:
    detail = f"You may {setting.tenant_may} {name}: the operator allows {allowed}"
    if setting.zero_is_none and allowed != 0:
        detail += ", and 0 would be no limit"
    return refuse(Code.FORBIDDEN, f"{detail}.", "value", allowed=allowed)
