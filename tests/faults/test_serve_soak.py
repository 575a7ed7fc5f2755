"""Twenty of twenty: the server comes back after every kill, and nothing committed is lost."""

import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from conftest import eventually, scratch
from support.serve_process import Served, postmaster_file

pytestmark = pytest.mark.soak

ROUNDS = 20
KEY = "an-admin-key-of-the-tests"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data", env={"POSTDATE_ADMIN_KEY": KEY})
        await one.start()
        await one.ready()
        yield one
        await one.stop()


def postmaster(served: Served) -> int:
    return int(postmaster_file(served.directory).read_text().splitlines()[0])


async def put(served: Served, value: int) -> bool:
    body = {"value": value}
    return await served.send("PUT", "/api/v1/settings/payment.max_amount", KEY, body) == 200


async def stored(served: Served) -> int:
    _, answer = await served.get("/api/v1/settings", KEY)
    assert isinstance(answer, dict)
    assert "settings" in answer, answer
    own: dict[str, int] = {one["name"]: one["own"] for one in answer["settings"]}
    return own["payment.max_amount"]


async def test_a_killed_postmaster_is_replaced_within_five_seconds(served: Served) -> None:
    took = []
    for round_number in range(1, ROUNDS + 1):
        assert await put(served, round_number)
        killed, began = postmaster(served), time.monotonic()
        os.kill(killed, signal.SIGKILL)

        async def is_back(value: int = round_number) -> bool:
            return await served.is_ready() and await put(served, value)

        await eventually(is_back, 15)
        took.append(time.monotonic() - began)
        assert await stored(served) == round_number
    print(f"postmaster killed: back after at most {max(took):.2f} s, {took}")
    assert max(took) <= 5


async def test_killed_with_everything_it_serves_within_ten_seconds(served: Served) -> None:
    took = []
    for round_number in range(1, ROUNDS + 1):
        assert await put(served, round_number)
        assert served.process
        group = postmaster(served)
        os.killpg(served.process.pid, signal.SIGKILL)
        os.killpg(group, signal.SIGKILL)
        await served.process.communicate()
        began = time.monotonic()
        await served.start()
        await served.ready()
        took.append(time.monotonic() - began)
        assert await stored(served) == round_number
    print(f"everything killed: serving after at most {max(took):.2f} s, {took}")
    assert max(took) <= 10
