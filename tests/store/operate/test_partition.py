"""What is read by id begins only the weeks of its ids: a year of history must cost nothing."""

import re

import pytest

from postdate.model.ids import new_id
from postdate.store.connection.database import Database
from postdate.store.connection.query import query

WEEKS = 8
_WEEK = re.compile(r"\b(?:payment|outcome|attempt|job|job_revision)_(\d{8}|default)\b")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("payment_load", "1, '{3}', array[{id}], {id}, {id}"),
        ("job_view_find", "1, array[{id}], true, '{3}', {id}, {id}"),
        ("job_load", "'{3}', '{1}', array[{id}], {id}, {id}"),
    ],
)
@pytest.mark.parametrize("role", ["writer", "reader"])
async def test_only_the_weeks_of_the_ids_are_begun(
    database: Database, name: str, values: str, role: str
) -> None:
    async with database.write() as connection:
        await connection.fetchval("SELECT partition_ahead($1)", WEEKS)
    one = f"'{new_id(3, database.unix_ms())}'::uuid"
    async with getattr(database, role).acquire() as connection:
        await connection.execute(f"PREPARE by_id AS {query(name)}")
        plan = await connection.fetch(
            f"EXPLAIN (COSTS OFF) EXECUTE by_id ({values.replace('{id}', one)})"
        )
        await connection.execute("DEALLOCATE by_id")
    text = "\n".join(row[0] for row in plan)
    weeks = set(_WEEK.findall(text))
    assert len(weeks) == 1, text
