"""Every example runs, and says what it promises: all of them against one server."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from postdate.client.pytest_plugin import PostdateServer

EXAMPLES = Path(__file__).parents[2] / "examples"
AT_ONCE = 3
SAYS = {
    "hold_then_pay.py": [
        "asked twice, one payment: True",
        "2500 held, 7500 available",
        "COMPLETED",
    ],
    "pay_rent_monthly.py": [
        "2031-01-02 09:00:00+01:00  rolled_following",
        "one at once: COMPLETED",
        "in the book: FIRED by trigger",
    ],
    "remind_by_webhook.py": ["called, and the signature holds: True", "text: water the plants"],
    "cancel_before_due.py": [
        "held: 200",
        "held after cancelling: 0",
        "a second time: CANCELLED",
    ],
    "task_in_fastapi.py": [
        "answered: 202",
        "report: {'status': 'COMPLETED', 'result': '2031-01: 3 pages'}",
    ],
    "work_from_a_lane.py": ["attempt 1, token ", "done: ['cat-0', 'cat-1', 'cat-2']"],
    "retry_until_it_works.py": ["FAILED the bank is closed", "job: COMPLETED"],
    "register_many_at_once.py": ["accepted: 99", "refused: ['"],
    "flatten_a_spike.py": ["jobs: 50 and nearly as many instants: True"],
    "pause_a_lane.py": ["handed out while paused: 0", "handed out after: [{'invoice': 7}]"],
    "redrive_what_failed.py": [
        "dead letter: FAILED",
        "redriven: 1",
        "now: COMPLETED",
        "in place of the failed one: True",
    ],
    "follow_what_happens.py": ["payment.scheduled\n", "payment.completed\n"],
    "remind_every_weekday.py": [
        "comes: 2031-03-28 08:00:00+00:00",
        "comes: 2031-03-31 07:00:00+00:00",
        "one at once: True",
        "paused: PAUSED",
    ],
}

Ran = dict[str, tuple[int | None, str, str]]


def test_every_example_is_run() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.fixture(scope="module")
async def ran(postdate_server: PostdateServer) -> Ran:
    """Run every example as its reader would, some at a time."""
    room = asyncio.Semaphore(AT_ONCE)
    environ = {
        **os.environ,
        "POSTDATE_URL": postdate_server.url,
        "POSTDATE_API_KEY": postdate_server.key,
    }

    async def run(name: str) -> tuple[int | None, str, str]:
        async with room:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                EXAMPLES / name,
                env=environ,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
            return process.returncode, out.decode(), err.decode()

    return dict(zip(SAYS, await asyncio.gather(*map(run, SAYS)), strict=True))


@pytest.mark.parametrize("name", SAYS)
async def test_an_example_says_what_it_promises(ran: Ran, name: str) -> None:
    code, out, err = ran[name]
    assert code == 0, err
    for text in SAYS[name]:
        assert text in out, out
