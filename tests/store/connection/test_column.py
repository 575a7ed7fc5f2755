"""Columns are listed once: a type or view of SQL and a struct of Python have the same."""

from operator import attrgetter

import msgspec
import pytest

from postdate.database.connection.column import Columns, call
from postdate.database.connection.database import Database
from postdate.intake import store as idempotency
from postdate.job.store.job import JOB_COLUMNS
from postdate.lane.store.lane import Lane
from postdate.lease.store import ATTEMPTS, ENDINGS
from postdate.payment.store.payment import HOLD_COLUMNS, PAYMENT_COLUMNS


class Pair(msgspec.Struct):
    name: str
    note: str | None
    size: int


PAIR = Columns("pair", Pair.__struct_fields__, repeated={"size"}, order=attrgetter("name"))


def test_a_call_gives_every_column_a_parameter() -> None:
    text = call("pair_add", "at", PAIR, "by")
    assert text == "SELECT pair_add($1, ROW($2, $3, $4)::pair, $5)"


def test_a_column_is_sent_as_short_as_its_type_allows() -> None:
    first, second = Pair("a", None, 1), Pair("b", None, 1)
    assert PAIR.arrays([second, first]) == [("a", "b"), (), (1,)]
    assert PAIR.arrays([first, Pair("a", "n", 2)]) == [("a", "a"), (None, "n"), (1, 2)]
    assert PAIR.arrays([]) == [(), (), ()]
    columns = Columns("pair", PAIR.fields, repeated={"size"}, row=None)
    assert columns.arrays([("b", "a"), (None, None), (1, 1)]) == [("b", "a"), (), (1,)]


@pytest.mark.parametrize(
    "columns",
    [
        JOB_COLUMNS,
        PAYMENT_COLUMNS,
        HOLD_COLUMNS,
        idempotency.COLUMNS,
        ENDINGS,
        ATTEMPTS,
        Columns("lane_view", Lane.__struct_fields__),
    ],
    ids=lambda each: each.name,
)
async def test_a_struct_has_the_columns_of_its_type_in_their_order(
    database: Database, columns: Columns
) -> None:
    async with database.write() as connection:
        found = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass ORDER BY attnum",
            columns.name,
        )
    assert [name for (name,) in found] == list(columns.fields)
