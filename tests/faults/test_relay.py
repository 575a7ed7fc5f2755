"""The outbox of another database: what is committed there is sent once, whoever dies."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from postdate.client import Client, UnreachableError
from postdate.client.pytest_plugin import PostdateServer
from postdate.client.relay import OutboxRelay, table_for


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(table_for("sqlite"))
        connection.execute("CREATE TABLE orders (name TEXT)")
    return path


def put(path: Path, operation: str, body: Any) -> int:
    with sqlite3.connect(path) as connection:
        cursor = connection.execute(
            "INSERT INTO postdate_outbox (operation, body) VALUES (?, ?)",
            (operation, body if isinstance(body, str) else json.dumps(body)),
        )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def rows(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute(
            "SELECT operation, sent_at IS NOT NULL, subject, error FROM postdate_outbox ORDER BY id"
        ).fetchall()


def job(lane: str) -> dict[str, Any]:
    return {"destination": {"type": "worker"}, "lane": lane, "payload": {"n": 1}}


def count(client: Client, lane: str) -> int:
    return sum(1 for _ in client.jobs.list(lane=lane))


def test_rows_are_sent_and_marked(postdate_server: PostdateServer, outbox: Path) -> None:
    put(outbox, "job", job("relayed"))
    put(outbox, "job", {"destination": {"type": "letter"}})
    put(outbox, "job", "no json")
    put(outbox, "fly", {})
    with postdate_server.client() as client, sqlite3.connect(outbox) as connection:
        relay = OutboxRelay(client, connection, source=str(outbox))
        assert relay.run_once() == 4
        assert relay.run_once() == 0
        sent, *bad = rows(outbox)
        assert (sent[1], sent[3]) == (1, None)
        assert client.jobs.get(sent[2]).lane == "relayed"
        assert [error for *_, error in bad if "[" not in error] == []
        assert bad[2][3] == (
            "operation is one of cancel_job, cancel_payment, job, payment, not fly [bad_row]"
        )
        put(outbox, "cancel_job", {"id": sent[2]})
        assert relay.run_once() == 1
        assert client.jobs.get(sent[2]).status == "CANCELLED"


def test_a_rolled_back_row_is_never_sent(postdate_server: PostdateServer, outbox: Path) -> None:
    shop = sqlite3.connect(outbox)
    shop.execute("INSERT INTO orders VALUES ('book')")
    statement = "INSERT INTO postdate_outbox (operation, body) VALUES ('job', ?)"
    shop.execute(statement, (json.dumps(job("rolled-back")),))
    shop.rollback()
    with postdate_server.client() as client, sqlite3.connect(outbox) as connection:
        assert OutboxRelay(client, connection).run_once() == 0
        assert count(client, "rolled-back") == 0


DYING = """
import os, signal, sqlite3
from postdate.client import Client
from postdate.client.relay import OutboxRelay

class Dying(OutboxRelay):
    def _mark(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)

with Client({url!r}, {key!r}) as client:
    Dying(client, sqlite3.connect({path!r}), source={path!r}).run_once()
"""


def test_a_relay_killed_between_sending_and_marking_sends_once(
    postdate_server: PostdateServer, outbox: Path
) -> None:
    put(outbox, "job", job("killed"))
    path = str(outbox)
    program = textwrap.dedent(
        DYING.format(url=postdate_server.url, key=postdate_server.key, path=path)
    )
    for _ in range(2):
        killed = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert rows(outbox)[0][1] == 0
    with postdate_server.client() as client, sqlite3.connect(outbox) as connection:
        assert count(client, "killed") == 1
        assert OutboxRelay(client, connection, source=path).run_once() == 1
        assert count(client, "killed") == 1
        assert rows(outbox)[0][2] == next(iter(client.jobs.list(lane="killed"))).job_id


def test_a_row_stays_while_nobody_answers(outbox: Path) -> None:
    put(outbox, "job", job("away"))
    with Client("http://127.0.0.1:9", "key", retries=0) as client:
        with sqlite3.connect(outbox) as connection, pytest.raises(UnreachableError):
            OutboxRelay(client, connection).run_once()
    assert rows(outbox)[0][1] == 0


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("job", "[" * 100_000 + "]" * 100_000),
        ("job", "[]"),
        ("payment", "null"),
        ("cancel_job", '{"id": "../accounts"}'),
        ("cancel_payment", '{"id": "a b\\n"}'),
        ("cancel_job", '{"id": 7}'),
    ],
)
def test_a_row_that_nobody_could_send_stops_no_other(
    outbox: Path, operation: str, body: str
) -> None:
    """It is marked without asking anybody: nobody answers here."""
    put(outbox, operation, body)
    with Client("http://127.0.0.1:9", "key", retries=0) as client:
        with sqlite3.connect(outbox) as connection:
            assert OutboxRelay(client, connection).run_once() == 1
    assert "[bad_row]" in rows(outbox)[0][3]


@pytest.mark.parametrize("source", ["größe", "a\nb", "x" * 201])
def test_a_source_can_be_part_of_a_key(outbox: Path, source: str) -> None:
    with Client("http://127.0.0.1:9", "key", retries=0) as client:
        with sqlite3.connect(outbox) as connection, pytest.raises(ValueError, match="no source"):
            OutboxRelay(client, connection, source=source)


def test_the_command_sends_what_is_there(postdate_server: PostdateServer, outbox: Path) -> None:
    put(outbox, "job", job("by-command"))
    known = {"POSTDATE_URL": postdate_server.url, "POSTDATE_API_KEY": postdate_server.key}
    command = ["relay", "--from", f"sqlite:///{outbox}", "--source", str(outbox), "--once"]
    done = subprocess.run(
        [Path(sys.executable).with_name("postdate"), "--json", *command],
        env={**os.environ, **known},
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"sent": 1}


@pytest.mark.parametrize("name", ["a; DROP TABLE b", "", "1a"])
def test_a_table_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="no name of a table"):
        table_for("sqlite", name)
