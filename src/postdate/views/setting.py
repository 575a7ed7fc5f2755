"""Read run-time settings: what is set, and what holds."""

from datetime import datetime

import msgspec

from postdate.model.setting import SETTINGS, Settings, Value
from postdate.store import setting as setting_store
from postdate.store.database import Database


class SettingView(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as a tenant sees it: the value that holds, and what the tenant itself has set."""

    name: str
    value: Value
    default: Value | None
    doc: str
    own: Value | None = None
    percent: int | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None


class SettingViews:
    """List what holds for a tenant."""

    def __init__(self, database: Database, runtime: Settings) -> None:
        self._database = database
        self._runtime = runtime

    async def page(self, tenant_id: int) -> list[SettingView]:
        """List every setting, and the features that are set for this tenant."""
        async with self._database.read(tenant_id) as connection:
            own = {row.name: row for row in await setting_store.page(connection, tenant_id)}
        names = [*SETTINGS, *sorted(own.keys() - SETTINGS.keys())]
        return [self._view(name, tenant_id, own.get(name)) for name in names]

    def _view(self, name: str, tenant_id: int, row: setting_store.SettingRow | None) -> SettingView:
        known = SETTINGS.get(name)
        holds = self._runtime.get(name, tenant_id) if known else row.value if row else False
        return SettingView(
            name=name,
            value=row.value if row else holds,
            default=known.default if known else False,
            doc=known.doc if known else "A feature flag.",
            own=row.value if row else None,
            percent=row.percent if row else None,
            changed_at=row.changed_at if row else None,
            changed_by=row.changed_by if row else None,
        )
