"""How long the event loop was held is measured, told in a metric, and forgotten again."""

import asyncio
import re
import time

from postdate.node.event_loop import TICK_SECONDS, WINDOW_SECONDS, LoopWatch
from tidy.reference import metric_names


async def test_what_holds_the_loop_is_measured() -> None:
    watch = LoopWatch()
    running = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    until = time.monotonic() + TICK_SECONDS + 0.3
    while time.monotonic() < until:
        re.fullmatch(r"a+b", "a" * 1000)
    async with asyncio.timeout(5):
        while not watch.longest_seconds:  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0)
    running.cancel()
    assert watch.longest_seconds >= 0.2


def test_the_longest_time_is_told_for_a_while() -> None:
    watch, now = LoopWatch(), time.monotonic()
    watch.record(0.5, now)
    watch.record(0.1, now + 1)
    assert watch.longest_seconds == 0.5
    watch.record(0.1, now + WINDOW_SECONDS + 1)
    assert watch.longest_seconds == 0.5
    watch.record(0.2, now + 2 * WINDOW_SECONDS + 2)
    assert watch.longest_seconds == 0.2


def test_it_is_a_metric() -> None:
    assert metric_names()["postdate_event_loop_held_seconds"][0] == "gauge"
