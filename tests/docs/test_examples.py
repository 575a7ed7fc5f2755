"""Every example runs, and says what it promises."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bank_ground import settler
from conftest import Api
from postdate.store.loop import Loop

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "hold_then_pay.py": [
        "asked twice, one payment: True",
        "2500 held, 7500 available",
        "COMPLETED",
    ],
    "pay_rent_monthly.py": [
        "2031-01-02T09:00:00+01:00  rolled_following",
        "one at once: COMPLETED",
        "in the book: fired by trigger",
    ],
}


def test_every_example_is_run() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.fixture
async def settling(api: Api) -> AsyncIterator[None]:
    """Settle what is due, as a server does."""
    one = settler(api.node.database)
    loop = Loop("settlement", one.run_once, limit=100, next_due=one.next_due)
    running = asyncio.create_task(loop.run())
    yield
    loop.stop()
    await running


@pytest.mark.usefixtures("settling")
@pytest.mark.parametrize("name", SAYS)
async def test_an_example_runs(api: Api, name: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        EXAMPLES / name,
        env={**os.environ, "POSTDATE_URL": api.url, "POSTDATE_KEY": api.key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    for text in SAYS[name]:
        assert text in out.decode(), out.decode()
