"""Run-time settings."""

from datetime import datetime

import msgspec

from postdate.model.setting import Stored, Value
from postdate.store.database import Connection
from postdate.store.query import query


class SettingRow(msgspec.Struct, frozen=True):
    """A stored value with its history."""

    name: str
    value: Value
    percent: int | None
    changed_at: datetime
    changed_by: str


async def load(connection: Connection) -> dict[tuple[int, str], Stored]:
    """Read every stored value: a small table, read whole."""
    rows = await connection.fetch(query("setting_all"))
    return {(row["tenant_id"], row["name"]): Stored(*row) for row in rows}


async def page(connection: Connection, tenant_id: int) -> list[SettingRow]:
    """List what is set for one tenant."""
    return [SettingRow(*row) for row in await connection.fetch(query("setting_list"), tenant_id)]


async def put(connection: Connection, stored: Stored, changed_by: str) -> None:
    """Set a value."""
    await connection.execute(
        query("setting_put"),
        stored.tenant_id,
        stored.name,
        stored.value,
        stored.percent,
        changed_by,
    )


async def delete(connection: Connection, tenant_id: int, name: str) -> bool:
    """Return to the default; False when nothing was set."""
    return await connection.fetchval(query("setting_delete"), tenant_id, name) is not None


async def find(connection: Connection, name: str) -> Value | None:
    """Read what is set for all tenants, past what nodes remember."""
    value: Value | None = await connection.fetchval(query("setting_find"), name)
    return value
