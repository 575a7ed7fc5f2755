"""Change run-time settings: the operator any, a tenant within what the operator allows."""

from typing import Any

from postdate.audit.spec import CLI
from postdate.core.identity import Identity
from postdate.core.setting.setting import Stored, get_setting, validate
from postdate.core.setting.table import Setting, SettingValue, TenantMay
from postdate.database.connection.database import Connection
from postdate.event.store.event import named, record_event
from postdate.intake.before_change import BeforeChange, always
from postdate.resource.change import Change, Changes
from postdate.setting import store as setting_store
from postdate.setting.spec import SettingSpec
from postdate.setting.store import SettingRow
from postdate.setting.view import SETTING
from postdate.words.error import Code, RefusedError, refuse


class SettingChanges(Changes):
    """Sets and clears values; every node applies a change within five seconds."""

    async def put(self, tenant_id: int, name: str, value: Any, *, changed_by: str = CLI) -> None:
        """Set a value as the operator, for a tenant or with tenant 0 for all."""
        stored = Stored(tenant_id, name, validate(name, value, tenant_id=tenant_id))
        async with self.database.write() as connection:
            await setting_store.put(connection, stored, changed_by)
            await _record(connection, tenant_id, name, stored.value, changed_by)

    async def clear(self, tenant_id: int, name: str, *, changed_by: str = CLI) -> None:
        """Clear the operator's value."""
        get_setting(name)
        async with self.database.write() as connection:
            await _delete(connection, tenant_id, name, operator=True)
            await _record(connection, tenant_id, name, None, changed_by)

    @SETTING.act("", "changed", name="put_setting", method="PUT", errors=(Code.UNKNOWN_SETTING,))
    async def put_own(
        self,
        change: Change[Identity],
        name: str,
        body: SettingSpec,
        before: BeforeChange[SettingRow | None] = always,
    ) -> None:
        """Set a value for the tenant; every node applies it within five seconds.

        `tenant_may` says what is allowed: a value that is not looser than the one the operator has
        set for the tenant or for all, or than the default. Otherwise the answer is 403.
        """
        actor = change.actor
        stored = await check_own(change.connection, actor, name, body.value)
        if await before(change.connection, await _lock_own(change.connection, actor, name)):
            await setting_store.put(change.connection, stored, actor.key_id)
            await change.record(name, {"name": name, "value": stored.value})

    @SETTING.delete("clear_setting", event="changed", errors=(Code.UNKNOWN_SETTING,))
    async def clear_own(
        self,
        change: Change[Identity],
        name: str,
        before: BeforeChange[SettingRow | None] = always,
    ) -> None:
        """Clear the tenant's value of a setting; the operator's value stays.

        The operator's value, or the default, applies again within seconds.
        """
        _tenant_setting(name)
        found = await _lock_own(change.connection, change.actor, name)
        if await before(change.connection, found):
            await _delete(change.connection, change.tenant_id, name, operator=False)
            await change.record(name, {"name": name, "value": None})


async def _delete(connection: Connection, tenant_id: int, name: str, *, operator: bool) -> None:
    if not await setting_store.delete(connection, tenant_id, name, operator=operator):
        raise refuse(Code.NOT_FOUND, f"No value is set for {name}.", "name")


async def _record(
    connection: Connection, tenant_id: int, name: str, value: SettingValue | None, actor: str
) -> None:
    about = named(tenant_id, "setting", name)
    await record_event(connection, about, "setting.changed", actor, {"name": name, "value": value})


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


def _valid(actor: Identity, name: str, value: Any) -> SettingValue:
    return validate(name, value, tenant_id=actor.tenant_id)


def _too_loose(name: str, setting: Setting, allowed: SettingValue) -> RefusedError:
    detail = f"You may {setting.tenant_may} {name}: the operator allows {allowed}"
    if setting.zero_is_none and allowed != 0:
        detail += ", and 0 would be no limit"
    return refuse(Code.FORBIDDEN, f"{detail}.", "value", allowed=allowed)
