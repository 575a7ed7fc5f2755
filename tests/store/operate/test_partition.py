"""What is read by id begins only the weeks of its ids: a year of history must cost nothing."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from postdate.core.ids import new_id
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.query import query

pytestmark = pytest.mark.own_database("the plans of its queries depend on the tables' size")

WEEKS = 8
_BEGUN = """SELECT relname FROM pg_stat_xact_user_tables
             WHERE idx_scan > 0
               AND relname ~ '^(payment|outcome|attempt|job|job_revision)_([0-9]{8}|default)$'"""


def values_of(name: str, one: UUID) -> Sequence[Any]:
    """Return the arguments of a query for one id."""
    return {
        "payment_load": (1, [3], [one], one, one, one),
        "job_view_find": (1, [3], [one], one, one, True),
        "job_load": ([3], [1], [one], one, one),
    }[name]


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("reader", "payment_load"),
        ("reader", "job_view_find"),
        ("writer", "job_view_find"),
        ("writer", "job_load"),
    ],
)
async def test_only_the_weeks_of_the_ids_are_begun(
    database: Database, role: str, name: str
) -> None:
    async with database.write() as connection:
        await connection.fetchval("SELECT partition_create_ahead($1)", WEEKS)
    one = new_id(3, database.unix_ms())
    async with database.read(1) if role == "reader" else database.write() as connection:
        await connection.fetch(query(name), *values_of(name, one))
        weeks = {each.rpartition("_")[2] for each in await begun(connection)}
    assert len(weeks) == 1
    assert weeks != {"default"}


async def begun(connection: Connection) -> list[str]:
    """Return the partitions of which an index was scanned in this transaction."""
    return [row["relname"] for row in await connection.fetch(_BEGUN)]
