"""`mypy --strict` lets right calls pass and finds wrong ones, each by its line."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RIGHT = """
from datetime import UTC, datetime, timedelta
from postdate.client import AsyncClient, Client, Lease, Worker

client = Client()
job = client.jobs.create(
    destination={"type": "webhook", "url": "https://example.com"},
    run_at=datetime(2031, 1, 1, tzinfo=UTC),
    retry={"backoff": "fixed", "initial_seconds": timedelta(minutes=1)},
)
due: datetime = job.due_at
names: list[str] = [account.account_id for account in client.accounts.list()]
client.lanes.change("mail", max_running=None)
worker = Worker()

async def look(awaited: AsyncClient) -> str:
    async for each in awaited.jobs.list(status="PENDING"):
        return (await awaited.jobs.wait(each.job_id)).job_id
    return (await awaited.jobs.get("a")).job_id

@worker.handler("mail", kind="send")
def send(lease: Lease) -> None:
    print(lease.payload)
"""
WRONG = {
    'client.jobs.creat(destination={"type": "worker"})': "attr-defined",
    "client.jobs.create()": "call-arg",
    'client.jobs.create(destination={"type": "worker"}, delay=5)': "call-arg",
    'client.jobs.create(destination={"type": "pigeon"})': "typeddict-item|arg-type|misc",
    'client.jobs.create(destination={"type": "worker"}, run_at="tomorrow")': "arg-type",
    'client.jobs.create(destination={"type": "worker"}, retry={"tries": 3})': "typeddict|arg-type",
    'client.jobs.list(status="DONE")': "arg-type",
    'client.accounts.adjust("a", amount=25.5, reason="x")': "arg-type",
    'client.payments.schedule("a", "b", 5)': "call-arg|misc",
    "client.jobs.get(job.job_id).statuss": "attr-defined",
    'client.lanes.change("mail", weight=None)': "arg-type",
    "for page in client.accounts.get('a'): pass": "attr-defined",
    'client.jobs.wait("a", seconds=1)': "call-arg",
    'AsyncClient().jobs.get("a").status': "attr-defined",
    "for each in AsyncClient().jobs.list(): pass": "attr-defined",
    "for event in AsyncClient().events.stream(): pass": "misc",
}


def test_mypy_rejects_wrong_calls_and_only_those(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(RIGHT + "\n".join(WRONG) + "\n")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(sample)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    first = len(RIGHT.splitlines()) + 1
    found = {
        int(line): code
        for line, code in re.findall(r"sample\.py:(\d+): error: .*\[([\w-]+)\]", ran.stdout)
    }
    for number, (call, code) in enumerate(WRONG.items(), first):
        assert re.search(code, found.get(number, "nothing was found")), (call, ran.stdout)
    assert set(found) == set(range(first, first + len(WRONG))), ran.stdout
