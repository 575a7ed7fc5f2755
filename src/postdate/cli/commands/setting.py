"""`postdate setting`: change run-time settings without a restart."""

from typing import Any

import cyclopts
import msgspec

from postdate.cli.command_table import HELP
from postdate.cli.database import tenant_number, with_database
from postdate.cli.output import show
from postdate.core.setting.table import SETTINGS
from postdate.database.connection.database import Database
from postdate.setting import store as setting_store
from postdate.setting.change import SettingChanges

setting_app = cyclopts.App(name="setting", help=HELP["setting"])


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
    """Set a value (a number, true, false or a string) for a tenant or for all."""

    async def run(database: Database) -> None:
        tenant_id = await tenant_number(database, tenant) if tenant else 0
        await SettingChanges(database).put(tenant_id, name, _value(value))

    with_database(run)
    show({"name": name, "value": _value(value)})


@setting_app.command(name="clear")
def setting_clear(name: str, *, tenant: str | None = None) -> None:
    """Clear a setting: return to the default."""

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
