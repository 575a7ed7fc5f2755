"""Settings are read whole only when one has changed: thousands of tenants may have some each."""

import pytest

from postdate.core.setting.setting import Stored
from postdate.database.connection.database import Database
from postdate.setting import store
from postdate.setting.store import SettingReader


async def test_settings_are_read_when_one_was_put_changed_or_deleted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, name = SettingReader(), "job.max_age_seconds"
    async with database.connection() as connection:
        assert await reader.read(connection) is not None
        for value in (100.0, 200.0):
            await store.put(connection, Stored(0, name, value), "a test")
            found = await reader.read(connection)
            assert found is not None
            assert found[0, name].value == value
            assert await reader.read(connection) is None
        await store.delete(connection, 0, name)
        found = await reader.read(connection)
        assert found is not None
        assert (0, name) not in found
        # What somebody edits by hand leaves no sign, and is read a minute later.
        assert await reader.read(connection) is None
        monkeypatch.setattr(reader, "_whole_at", 0.0)
        assert await reader.read(connection) is not None


async def test_one_put_and_one_deleted_in_between_are_noticed(database: Database) -> None:
    reader = SettingReader()
    async with database.connection() as connection:
        await store.put(connection, Stored(0, "job.max_age_seconds", 100.0), "a test")
        await reader.read(connection)
        await store.delete(connection, 0, "job.max_age_seconds")
        await store.put(connection, Stored(0, "payment.max_amount", 5000), "a test")
        found = await reader.read(connection)
        assert found is not None
        assert set(found) >= {(0, "payment.max_amount")}
        assert (0, "job.max_age_seconds") not in found
        await store.delete(connection, 0, "payment.max_amount")
