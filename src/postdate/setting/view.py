"""Read run-time settings: current values, who set them, and what the tenant may change."""

from typing import Final

from postdate.core.identity import Scope
from postdate.core.setting.setting import Settings
from postdate.core.setting.table import SETTINGS
from postdate.database.connection.database import Database
from postdate.resource.resource import Resource
from postdate.setting import store as setting_store
from postdate.setting.spec import SettingSpec, SettingView
from postdate.setting.store import SettingRow

SETTING: Final = Resource(
    noun="setting",
    spec=SettingSpec,
    shows=SettingView,
    read=Scope.ADMIN,
    write=Scope.ADMIN,
    columns=("name", "value", "set_by", "tenant_may", "default"),
    paged=False,
)


class SettingViews:
    """Lists the current settings of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @SETTING.list()
    async def page(self, tenant_id: int) -> list[SettingView]:
        """List the run-time settings of the tenant, and who set each.

        Each has its default, its current value, and how the tenant may change it.
        """
        reader = self._database.tenant_reader(tenant_id)
        rows = await setting_store.page(reader, tenant_id)
        rows += await setting_store.page(reader, 0)
        holds = Settings(setting_store.resolved(rows))
        return [
            _view(name, tenant_id, holds, rows) for name in SETTINGS if SETTINGS[name].per_tenant
        ]


def _view(name: str, tenant_id: int, holds: Settings, rows: list[SettingRow]) -> SettingView:
    setting, set_by = SETTINGS[name], holds.set_by(name, tenant_id)
    named = [row for row in rows if row.name == name]
    own = next((row for row in named if not row.operator), None)
    # Those for the tenant stand before those for all.
    shown = next((row for row in named if row.operator == (set_by == "operator")), None)
    return SettingView(
        name=name,
        value=holds.get(name, tenant_id),
        set_by=set_by,
        default=setting.default,
        doc=setting.doc,
        tenant_may=setting.tenant_may,
        own=own.value if own else None,
        changed_at=shown.changed_at if shown else None,
        changed_by=shown.changed_by if shown else None,
    )
