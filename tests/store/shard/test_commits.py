"""What holds commits up over shards, on one server: a table stands for the record that Citus keeps.

The permissions, the locks and the errors are PostgreSQL's own. `tests/faults/test_citus_proof.py`
has the real record.
"""

from collections.abc import AsyncIterator

import pytest

from conftest import admin
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.database.shard.commits import held_up
from support.log import capture_logs

RECORD = """
CREATE TABLE public.record_of_commits ();
CREATE FUNCTION postdate.shard_hold_commits() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE public.record_of_commits IN SHARE ROW EXCLUSIVE MODE;
    RETURN 0;
END $$;
"""
FORGET = "DROP FUNCTION postdate.shard_hold_commits(); DROP TABLE public.record_of_commits"
HELD = "SELECT count(*) FROM pg_locks WHERE relation = 'public.record_of_commits'::regclass"
IN_TRANSACTION = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""


@pytest.fixture
async def record(server: Embedded, database_name: str) -> AsyncIterator[None]:
    await admin(server, RECORD, database_name)
    yield
    await admin(server, FORGET, database_name)


@pytest.mark.usefixtures("record")
async def test_without_the_right_to_hold_commits_up_they_go_on_and_the_log_says_so(
    database: Database,
) -> None:
    with capture_logs() as lines:
        async with held_up(database):
            assert await database.writer.fetchval(HELD) == 0
            assert await database.writer.fetchval(IN_TRANSACTION) == 0, "the failed one is open"
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("shard.commits_go_on", "warning")
    ]
    assert "record_of_commits" in lines[0]["error"]


@pytest.mark.usefixtures("record")
async def test_with_the_right_they_are_held_up_until_the_end(
    server: Embedded, database: Database, database_name: str
) -> None:
    grant = "GRANT UPDATE ON public.record_of_commits TO PUBLIC"
    await admin(server, grant, database_name)
    with capture_logs() as lines:
        async with held_up(database):
            assert await database.writer.fetchval(HELD) == 1
    assert await database.writer.fetchval(HELD) == 0
    assert lines == []
