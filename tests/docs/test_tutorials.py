"""The programs of the tutorials run as their pages say; every block of a page is part of one."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from postdate.client.models import RetryParams
from postdate.client.pytest_plugin import PostdateServer, TestTenant
from support.program import PATIENCE_SECONDS, ask, free_port, until

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "examples/tutorials"
PAGES = {
    "tutorial-rent.md": "rent_service.py",
    "tutorial-worker.md": "mail_worker.py",
    "tutorial-webhooks.md": "webhook_receiver.py",
}
SECRET = "whsec_" + b64encode(b"s" * 32).decode()
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@contextmanager
def running(
    server: PostdateServer, command: list[str], **own: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a program as its reader does, and end it as a service manager does."""
    known = {"POSTDATE_URL": server.url, "POSTDATE_API_KEY": server.key, **own}
    with subprocess.Popen(
        [sys.executable, *command], cwd=PROGRAMS, env=os.environ | known, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()


def test_every_program_has_its_page() -> None:
    assert {file.name for file in PROGRAMS.glob("*.py")} == set(PAGES.values())


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_is_part_of_its_program(page: str) -> None:
    program = (PROGRAMS / PAGES[page]).read_text()
    blocks = BLOCK.findall((ROOT / "docs/start" / page).read_text())
    assert blocks
    for block in blocks:
        assert block.strip() in program


def test_the_task_of_the_migration_guide_runs(postdate: TestTenant) -> None:
    [block] = BLOCK.findall((ROOT / "docs/guides/migrate.md").read_text())
    known: dict[str, Any] = {}
    exec(block, known)
    with known["app"].testing(postdate) as clock:
        handle = known["send_reminder"].later("5m", 7)
        assert (clock.run_due(), clock.advance("5m"), handle.wait()) == (0, 1, "reminded 7")


def test_the_rent_is_paid_once_and_reminded_of(postdate_server: PostdateServer) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["-m", "uvicorn", "rent_service:app", "--port", str(port), "--log-level", "error"]
    with running(postdate_server, command, RENT_URL=url, RENT_HOOK_SECRET=SECRET):
        until(lambda: ask("GET", f"{url}/openapi.json")[0] == 200)
        new = {"name": "ada", "rent": 95_000, "day": 5}
        status, made = ask("POST", f"{url}/tenancies", new)
        assert status == 201
        assert ask("POST", f"{url}/tenancies", new) == (201, made), "asked twice, made once"
        paid_in = {"amount": 100_000, "reference": "sepa-1"}
        for _ in range(2):
            answer = ask("POST", f"{url}/tenancies/ada/deposits", paid_in)
            assert answer == (201, {"balance": 100_000})
        assert ask("POST", f"{url}/tenancies/mallory/deposits", paid_in)[0] == 409
        other = {**paid_in, "reference": "sepa-2"}
        assert ask("POST", f"{url}/tenancies/mallory/deposits", other)[0] == 404
        with postdate_server.client() as client:
            for each in ("rent", "reminder"):
                client.schedules.trigger(made[each])
        shown = {
            "balance": 5000,
            "paid": [95_000],
            "reminders": [{"tenancy": "ada", "rent": 95_000}],
        }
        until(lambda: ask("GET", f"{url}/tenancies/ada") == (200, shown))
        assert ask("POST", f"{url}/hooks/reminders", {"tenancy": "ada"})[0] == 401


def test_the_worker_sends_each_mail_once(postdate_server: PostdateServer, tmp_path: Path) -> None:
    database = tmp_path / "mail.db"
    with postdate_server.client() as client:
        jobs = [
            client.jobs.create(
                destination={"type": "worker"},
                lane="mail",
                payload={"to": to},
                metadata={"kind": "welcome"},
            ).job_id
            for to in ("ada@example.com", "slow@example.com", "nobody")
        ]
        with running(postdate_server, ["mail_worker.py"], MAIL_DATABASE=str(database)):
            ended = [client.jobs.wait(job_id, timeout=PATIENCE_SECONDS) for job_id in jobs]
    assert [(job.status, job.code) for job in ended] == [
        ("COMPLETED", None),
        ("COMPLETED", None),
        ("FAILED", "bad_address"),
    ]
    assert ended[1].attempt == 2
    with sqlite3.connect(database) as connection:
        sent = {row[0] for row in connection.execute("SELECT receiver FROM sent")}
    assert sent == {"ada@example.com", "slow@example.com"}


def test_the_receiver_takes_what_is_genuine_and_is_called_again(
    postdate_server: PostdateServer,
) -> None:
    port = free_port()
    own = {"HOOK_SECRET": SECRET, "HOOK_PORT": str(port)}
    url = f"http://127.0.0.1:{port}/"
    with (
        postdate_server.client() as client,
        running(postdate_server, ["webhook_receiver.py"], **own) as process,
    ):
        until(lambda: ask("POST", url, {"order": 1})[0] == 401)
        client.destinations.create(name="orders", type="webhook", url=url, secret=SECRET)
        retry = RetryParams(max_attempts=3, backoff="fixed", initial_seconds=0.1)
        made = [
            client.jobs.create(
                destination={"type": "webhook", "name": "orders"}, payload=payload, retry=retry
            ).job_id
            for payload in ({"order": 7}, {"order": 8, "busy": True})
        ]
        ended = [client.jobs.wait(job_id, timeout=PATIENCE_SECONDS) for job_id in made]
        assert [(job.status, job.attempt) for job in ended] == [("COMPLETED", 1), ("COMPLETED", 2)]
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert "took 7, attempt 1" in said
    assert "took 8, attempt 2" in said
