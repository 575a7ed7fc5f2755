"""What the tests of schedules share."""

from datetime import UTC, datetime, timedelta
from typing import Any

from conftest import Api, Clock, eventually
from postdate.scheduler.expander import Expander

MINUTE_SECONDS = 4.0
PULL = {"job": {"destination": {"type": "worker"}, "lane": "ticks"}}


async def set_to_morning(clock: Clock) -> None:
    """Move the clock on to five past ten, so that no test depends on when it is run."""
    now: datetime = await clock.database.writer.fetchval("SELECT clock()")
    morning = now.astimezone(UTC).replace(hour=10, minute=5, second=0, microsecond=0)
    if morning < now:
        morning += timedelta(days=1)
    await clock.advance((morning - now).total_seconds())


async def drain(expander: Expander) -> int:
    """Expand until nothing is due."""
    total = 0
    while count := await expander.run_once():
        total += count
    return total


async def _clear_of_the_minute(api: Api) -> bool:
    left: float = await api.node.database.writer.fetchval(
        "SELECT (60 - mod(extract(epoch FROM clock()), 60))::float8"
    )
    return left > MINUTE_SECONDS


async def create(api: Api, **fields: Any) -> dict[str, Any]:
    """Create a schedule of jobs for a worker, never just before a full minute.

    Intervals are counted from full minutes: whoever then moves the clock by one would pass two.
    """
    await eventually(lambda: _clear_of_the_minute(api))
    answer = await api.call("POST", "/schedules", {"template": PULL, **fields})
    assert answer.status == 201, answer.body
    return dict(answer.body)


async def book(api: Api, schedule_id: str) -> list[dict[str, Any]]:
    """Read the book, the oldest row first."""
    answer = await api.call("GET", f"/schedules/{schedule_id}/occurrences?limit=100")
    assert answer.status == 200
    return list(reversed(answer.body["occurrences"]))


async def labels(api: Api, schedule_id: str) -> list[str]:
    """Read the labels of the book."""
    return [row["status"] for row in await book(api, schedule_id)]
