"""Run-time settings."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from postdate.core.setting.setting import Stored, resolve
from postdate.core.setting.table import SettingValue
from postdate.database.connection.off_loop import in_thread
from postdate.database.connection.query import Connection, Reader, fetch_all, query

WHOLE_SECONDS: Final = 60.0
"""How often all values are read without a sign of a change: they may be edited by hand."""


class SettingRow(msgspec.Struct, frozen=True):
    """A stored value with its history."""

    tenant_id: int
    name: str
    value: SettingValue
    operator: bool
    changed_at: datetime
    changed_by: str


async def load(reader: Reader) -> dict[tuple[int, str], Stored]:
    """Read every value that holds."""
    rows = await reader.fetch(query("setting_all"))
    # Thousands of tenants may have some each, and the loop is not for that.
    return await in_thread(_resolved_rows, rows)


def _resolved_rows(rows: Sequence[Sequence[Any]]) -> dict[tuple[int, str], Stored]:
    return resolve(Stored(*row) for row in rows)


class SettingReader:
    """Reads every value again when one was put or deleted, else once a minute."""

    def __init__(self) -> None:
        self._fingerprint: tuple[int, str] | None = None
        self._whole_at = 0.0

    async def read(self, reader: Reader) -> dict[tuple[int, str], Stored] | None:
        """Return every value that holds, or None if there is no sign of a change."""
        [row] = await reader.fetch(query("setting_fingerprint"))
        found, now = (row[0], row[1]), time.monotonic()
        if found == self._fingerprint and now < self._whole_at:
            return None
        values = await load(reader)
        self._fingerprint, self._whole_at = found, now + WHOLE_SECONDS
        return values


async def page(connection: Reader, tenant_id: int) -> list[SettingRow]:
    """List what is set for one tenant."""
    return await fetch_all(connection, SettingRow, "setting_list", tenant_id)


async def change_alone(connection: Connection, tenant_id: int) -> None:
    """Lock what a tenant has set: no other request of it changes that before our commit."""
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


async def allowed(connection: Connection, tenant_id: int, name: str) -> SettingValue | None:
    """Read what the operator has set for a tenant or for all, past what nodes remember."""
    return await connection.fetchval(query("setting_allowed"), tenant_id, name)


async def find(connection: Connection, name: str) -> SettingValue | None:
    """Read what is set for all tenants, past what nodes remember."""
    return await connection.fetchval(query("setting_find"), name)
