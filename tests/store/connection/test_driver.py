"""The driver looks at the types of what is sent as an array."""

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from postdate.database.connection.database import Database
from postdate.database.connection.driver import ARRAY_TYPES, look_at_types

AT = datetime(2027, 1, 1, tzinfo=UTC)


def test_the_driver_that_is_installed_looks_at_types() -> None:
    assert look_at_types(), "asyncpg has changed: see database/connection/driver.py"


def test_a_driver_that_is_not_known_stays_as_it_is() -> None:
    unknown = SimpleNamespace(IterableABC=int)
    assert not look_at_types(unknown)
    assert unknown.IterableABC is int
    assert not look_at_types(SimpleNamespace())
    known = SimpleNamespace(IterableABC=Iterable)
    assert look_at_types(known)
    assert look_at_types(known)
    assert known.IterableABC is ARRAY_TYPES


@pytest.mark.parametrize(
    ("kind", "sent", "expected"),
    [
        ("text", ["a", "", None], ["a", "", None]),
        ("text", {"a": 1}.keys(), ["a"]),
        ("text", {1: "a"}.values(), ["a"]),
        ("bytea", (b"a", b""), [b"a", b""]),
        ("bigint", deque([1, 2]), [1, 2]),
        ("bigint", range(3), [0, 1, 2]),
        ("bigint", {7}, [7]),
        ("bigint", frozenset(), []),
        ("bigint", [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("timestamptz", [AT, None], [AT, None]),
        ("uuid", [UUID(int=1)], [UUID(int=1)]),
    ],
)
async def test_arrays_arrive_as_they_were_sent(
    database: Database, kind: str, sent: Any, expected: Any
) -> None:
    assert await database.writer.fetchval(f"SELECT $1::{kind}[]", sent) == expected


@pytest.mark.parametrize("sent", ["abc", b"abc", {"a": 1}, 5, iter([1])])
async def test_what_is_no_array_is_refused(database: Database, sent: Any) -> None:
    with pytest.raises(Exception, match="a sized iterable container expected"):
        await database.writer.fetchval("SELECT $1::text[]", sent)
