"""Run-time settings."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from postdate.core.setting.setting import Stored, resolve
from postdate.core.setting.table import Value
from postdate.database.connection.query import Connection, Reader, fetch_all, query


class SettingRow(msgspec.Struct, frozen=True):
    """A stored value with its history."""

    tenant_id: int
    name: str
    value: Value
    operator: bool
    changed_at: datetime
    changed_by: str


async def load(reader: Reader) -> dict[tuple[int, str], Stored]:
    """Read every value that holds: a small table, read whole."""
    rows = await reader.fetch(query("setting_all"))
    return resolve(Stored(*row) for row in rows)


async def page(connection: Reader, tenant_id: int) -> list[SettingRow]:
    """List what is set for one tenant."""
    return await fetch_all(connection, SettingRow, "setting_list", tenant_id)


async def change_alone(connection: Connection, tenant_id: int) -> None:
    """Lock what a tenant has set: nobody else of it changes that before our commit."""
    await connection.execute(query("setting_change"), tenant_id)


def resolved(rows: Sequence[SettingRow]) -> dict[tuple[int, str], Stored]:
    """Return which of these values hold."""
    return resolve(Stored(row.tenant_id, row.name, row.value, row.operator) for row in rows)


async def put(connection: Connection, stored: Stored, changed_by: str) -> None:
    """Set a value."""
    await connection.execute(
        query("setting_put"),
        stored.tenant_id,
        stored.name,
        stored.value,
        stored.operator,
        changed_by,
    )


async def delete(
    connection: Connection, tenant_id: int, name: str, *, operator: bool = True
) -> bool:
    """Forget what the operator, or the tenant itself, has set; False when nothing was."""
    gone = await connection.fetchval(query("setting_delete"), tenant_id, name, operator)
    return gone is not None


async def allowed(connection: Connection, tenant_id: int, name: str) -> Value | None:
    """Read what the operator has set for a tenant or for all, past what nodes remember."""
    return await connection.fetchval(query("setting_allowed"), tenant_id, name)


async def find(connection: Connection, name: str) -> Value | None:
    """Read what is set for all tenants, past what nodes remember."""
    return await connection.fetchval(query("setting_find"), name)
