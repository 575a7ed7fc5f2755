"""Change run-time settings."""

from typing import Any

from postdate.intake import told
from postdate.model.errors import Code, refuse
from postdate.model.setting import Stored, validate
from postdate.store import setting as setting_store
from postdate.store.database import Connection, Database


class SettingChanges:
    """Set and clear values; every node follows within five seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self, tenant_id: int, name: str, value: Any, *, changed_by: str, percent: int | None = None
    ) -> None:
        """Set a value for a tenant, or with tenant 0 for all."""
        if percent is not None and not 0 <= percent <= 100:  # noqa: PLR2004 - a percentage
            raise refuse(Code.INVALID_FIELD, "A percentage lies between 0 and 100.", "percent")
        stored = Stored(tenant_id, name, validate(name, value, percent), percent)
        async with self._database.write() as connection:
            await setting_store.put(connection, stored, changed_by)
            data = {"name": name, "value": stored.value, "percent": percent}
            await self._tell(connection, tenant_id, data, changed_by)

    async def clear(self, tenant_id: int, name: str, *, changed_by: str = told.CLI) -> None:
        """Return to the default."""
        async with self._database.write() as connection:
            if not await setting_store.delete(connection, tenant_id, name):
                raise refuse(Code.NOT_FOUND, f"Nothing is set for {name}.", "name")
            await self._tell(connection, tenant_id, {"name": name, "value": None}, changed_by)

    async def _tell(
        self, connection: Connection, tenant_id: int, data: dict[str, Any], actor: str
    ) -> None:
        about = told.named(tenant_id, "setting", data["name"])
        await told.tell(
            connection, self._database, about, "setting.changed", tenant_id, data, actor=actor
        )
