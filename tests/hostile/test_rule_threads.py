"""A tenant whose rules take long to compute holds up itself, and nobody else."""

import asyncio
import threading

import pytest

from conftest import eventually
from postdate.core.work import spend
from postdate.database.connection import off_loop
from postdate.database.connection.off_loop import (
    EACH_STEPS,
    PER_TENANT,
    computed,
    computed_each,
)
from postdate.words.error import Code, RefusedError


async def test_a_tenant_has_a_share_of_the_threads_that_compute_rules() -> None:
    leave = threading.Event()
    slow = [asyncio.create_task(computed(1, leave.wait, 30.0)) for _ in range(PER_TENANT)]
    await asyncio.sleep(0)
    with pytest.raises(RefusedError) as refused:
        await computed(1, int, "1")
    assert refused.value.refusal.code is Code.RATE_LIMITED
    assert await asyncio.wait_for(computed(2, int, "2"), 5) == 2, "another tenant goes on"
    slow[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow[0]
    with pytest.raises(RefusedError):  # it counts until it has really ended
        await computed(1, int, "1")
    leave.set()
    assert await asyncio.gather(*slow[1:]) == [True] * (PER_TENANT - 1)

    async def free() -> bool:
        return not off_loop._under_way

    assert await eventually(free)
    assert await computed(1, int, "1") == 1


def _spent(steps: int) -> int:
    if steps < 0:
        raise ValueError(steps)
    spend(steps)
    return steps


async def test_what_is_much_is_computed_apart_from_what_is_little() -> None:
    """Each of a walk took a thread's turn of its own, and most of the time went into that."""
    steps = [1, EACH_STEPS, EACH_STEPS + 1, -1, 2]
    found = await computed_each(_spent, [(each,) for each in steps])
    assert found[:3] == steps[:3]
    assert isinstance(found[3], ValueError)
    assert found[4] == 2
