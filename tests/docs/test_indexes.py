"""Each index beside the keys is listed with the queries that need it, and the planner agrees."""

import re
from pathlib import Path

from conftest import owner_dsn
from postdate.database.connection.query import queries
from postdate.database.connection.session import DatabaseSession, connect_alone
from postdate.database.embedded import Embedded
from tidy.schema import PAGE as SCHEMA

PAGE = Path(__file__).parents[2] / "docs/operate/database.md"
_ROW = re.compile(
    r"^\| (`\w+`(?:, `\w+`)*) \| [^|]+ \| (`\w+(?:\(\))?`(?:, `\w+(?:\(\))?`)*) \|$", re.MULTILINE
)
_NAME = re.compile(r"`(\w+(?:\(\))?)`")
_ROOTS = """SELECT part.relname, root.relname AS root FROM pg_inherits
              JOIN pg_class part ON part.oid = inhrelid JOIN pg_class root ON root.oid = inhparent
             WHERE part.relkind = 'i'"""
SETTINGS = {
    "search_path": "postdate",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_partition_pruning": "off",  # the plan is asked for with NULL, which admits no week
}

LISTED = {
    index: _NAME.findall(readers)
    for indexes, readers in _ROW.findall(PAGE.read_text())
    for index in _NAME.findall(indexes)
}


def test_every_index_is_listed() -> None:
    made = re.findall(r"^CREATE INDEX (\w+) ", SCHEMA.read_text(), re.MULTILINE)
    assert sorted(LISTED) == sorted(made)


async def planned(connection: DatabaseSession, name: str) -> set[str]:
    """Return the indexes, of whole tables, in the plan of a query."""
    await connection.execute(f"PREPARE asked AS {queries()[name]}")
    count = await connection.fetchval(
        "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'asked'"
    )
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    rows = await connection.fetch(f"EXPLAIN (COSTS OFF) EXECUTE asked{values}")
    await connection.execute("DEALLOCATE asked")
    return {found for row in rows for found in re.findall(r" using (\S+) on ", row[0])}


async def test_every_index_serves_the_queries_it_is_listed_with(
    server: Embedded, database_name: str
) -> None:
    connection = await connect_alone(owner_dsn(server, database_name), 5, SETTINGS)
    roots = {row["relname"]: row["root"] for row in await connection.fetch(_ROOTS)}
    wrong = []
    for name in sorted(
        {each for readers in LISTED.values() for each in readers if each[-1] != ")"}
    ):
        used = {roots.get(index, index) for index in await planned(connection, name)}
        wrong += [
            (index, name)
            for index, readers in LISTED.items()
            if name in readers and index not in used
        ]
    await connection.close()
    assert not wrong


async def test_a_function_that_needs_an_index_asks_for_its_columns(
    server: Embedded, database_name: str
) -> None:
    """EXPLAIN shows no plan of a statement within a function."""
    connection = await connect_alone(owner_dsn(server, database_name), 5, SETTINGS)
    asked = [(index, each) for index, names in LISTED.items() for each in names if each[-1] == ")"]
    assert asked
    for index, name in asked:
        text = await connection.fetchval("SELECT prosrc FROM pg_proc WHERE proname = $1", name[:-2])
        columns = await connection.fetch(
            """SELECT a.attname FROM pg_attribute a
                WHERE a.attrelid = $1::text::regclass AND a.attnum > 0""",
            index,
        )
        missing = [row["attname"] for row in columns if not re.search(rf"\bt\.{row[0]}\b", text)]
        assert missing in ([], ["lane_id"], ["token"]), (index, name)
    await connection.close()
