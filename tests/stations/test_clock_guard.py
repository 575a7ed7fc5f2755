"""A leap of the database's clock changes nothing: nodes go by the time they believed before."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import pytest

from conftest import Clock, app_dsn
from postdate.database import clock_watch
from postdate.database.connection import clock as clock_store
from postdate.database.connection import opening
from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.runtime import clock_guard
from postdate.runtime.clock_guard import ClockGuard
from support.bank import settings

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86400
LEAP = timedelta(days=1)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Steady:
    """A steady clock that a test moves."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_only_a_leap_beyond_what_was_believed_counts() -> None:
    steady = Steady()
    belief = ClockBelief(steady)
    belief.trust(START, START, 60)
    steady.seconds = 3600.0
    assert belief.leap(after(3630), 60) is None
    assert belief.leap(after(100), 60) is None, "a step back is no leap"
    assert belief.leap(after(3600), 60) is None, "nor is its return"
    assert belief.leap(after(3600 + DAY), 60) == pytest.approx(DAY - 30)
    assert belief.shown(after(3600 + DAY)) == after(3600), "the last believed time goes on"
    belief.trust(after(3600 + DAY), START, 60)
    assert belief.leap(after(3600 + DAY), 60) is None


def test_many_small_leaps_are_one_large_one() -> None:
    steady = Steady()
    belief = ClockBelief(steady)
    belief.trust(START, START, 60)
    leaps = []
    for number in range(1, 5):
        steady.seconds = 2.0 * number
        leaps.append(belief.leap(after(steady.seconds + 40 * number), 60))
    assert leaps[0] is None
    assert leaps[1] is not None


def test_a_clock_that_is_slewed_is_believed_for_ever() -> None:
    steady = Steady()
    belief = ClockBelief(steady)
    belief.trust(START, START, 60)
    for hour in range(1, 24 * 30):
        steady.seconds = 3600.0 * hour
        assert belief.leap(after(steady.seconds * 1.0005), 60) is None


def test_a_session_is_told_when_its_limit_is_old() -> None:
    steady = Steady()
    belief = ClockBelief(steady)
    assert belief.message(None) is None, "nothing is believed yet"
    belief.trust(START, START, 60)
    told = belief.message(None)
    assert told is not None
    assert after(60).isoformat() in told[0]
    steady.seconds = 1.0
    told = belief.message(None)
    assert told is not None
    steady.seconds = 2.0
    assert belief.message(told[1]) is None
    belief.doubt = "leapt"
    assert belief.message(told[1]) is not None


class NodeUnderTest:
    """The guard of a node, on connections of its own."""

    def __init__(self, database: Database, node_clock: Callable[[], datetime]) -> None:
        self.database = database
        chosen = settings(**{clock_guard.STEP: 60.0})
        self.guard = ClockGuard(database, chosen, node_clock=node_clock)

    async def look(self) -> str | None:
        await self.guard.run_once()
        return self.guard.doubt()

    async def now(self) -> datetime:
        async with self.database.connection() as connection:
            return await clock_store.now(connection)


Start = Callable[..., Awaitable[NodeUnderTest]]


@pytest.fixture
async def start(server: Embedded, database_name: str, clock: Clock) -> AsyncIterator[Start]:
    """Start nodes; the database's clock is right, and was recorded a moment ago."""
    async with clock.database.connection() as connection:
        await connection.execute(
            "UPDATE clock_watch SET at = machine_clock(), watched_since = machine_clock(), "
            "doubt = NULL"
        )
    async with AsyncExitStack() as stack:

        async def started(
            node_clock: Callable[[], datetime] = clock_guard.node_time,
        ) -> NodeUnderTest:
            opened = await opening.connect(app_dsn(server, database_name), writers=2, readers=1)
            stack.push_async_callback(opened.close)
            return NodeUnderTest(opened, node_clock)

        yield started


async def confirm(clock: Clock) -> bool:
    """Confirm the clock, as `postdate settlement resume` does."""
    async with clock.database.connection() as connection:
        return await clock_watch.confirm(connection)


async def test_a_leap_moves_nothing_from_its_first_instant_on(start: Start, clock: Clock) -> None:
    node = await start()
    assert await node.look() is None
    before = await node.now()
    await clock.advance(DAY)
    # Before the guard has looked again: the statement itself compares.
    assert abs(await node.now() - before) < timedelta(seconds=30)
    assert "leapt 86400 s ahead" in (await node.look() or "")
    assert await node.now() - before < timedelta(seconds=30)
    async with node.database.read(1) as connection:
        assert await clock_store.now(connection) - before < timedelta(seconds=30)
        ids = await connection.fetchval("SELECT server_clock()")
    assert ids - before < timedelta(seconds=30)
    await clock.advance(-DAY)
    assert await node.look() is None


async def test_the_believed_time_goes_on(start: Start, clock: Clock) -> None:
    node = await start()
    await node.look()
    await clock.advance(DAY)
    await node.look()
    steady = node.database.belief.steady
    node.database.belief.steady = lambda: steady() + 100
    first = await node.now()
    node.database.belief.steady = lambda: steady() + 110
    assert timedelta(seconds=9) < await node.now() - first < timedelta(seconds=30)


async def test_a_step_within_the_limit_is_believed(start: Start, clock: Clock) -> None:
    node = await start()
    await node.look()
    before = await node.now()
    await clock.advance(50)
    assert await node.look() is None
    assert await node.now() - before > timedelta(seconds=49)


async def test_a_leap_is_believed_when_a_person_confirms_it(start: Start, clock: Clock) -> None:
    node, other = await start(), await start()
    await node.look()
    await other.look()
    before = await node.now()
    await clock.advance(DAY)
    assert await node.look()
    assert await other.look()
    assert await confirm(clock)
    assert (await node.look(), await other.look()) == (None, None)
    assert await node.now() - before > timedelta(seconds=DAY - 1)
    assert not await confirm(clock), "there is nothing left to confirm"
    await clock.advance(DAY)
    assert "leapt" in (await node.look() or ""), "it goes beyond what was confirmed"


async def test_a_doubt_that_another_node_took_back_confirms_no_second_leap(
    start: Start, clock: Clock
) -> None:
    """The clock leaps, returns, and leaps again before one of two nodes has looked."""
    first, second = await start(), await start()
    await first.look()
    await second.look()
    await clock.advance(DAY)
    assert await first.look()
    assert await second.look()
    await clock.advance(-DAY)
    assert await second.look() is None
    await clock.advance(DAY)
    assert "leapt 86400 s ahead" in (await first.look() or "")


async def test_a_time_that_a_newer_node_recorded_confirms_nothing(
    start: Start, clock: Clock
) -> None:
    """A node that starts on a machine whose clock leapt too believes it: nobody confirmed it."""
    node = await start()
    await node.look()
    await clock.advance(DAY)
    newer = await start(lambda: datetime.now(UTC) + LEAP)
    assert await newer.look() is None, "no other node had doubted it yet"
    assert await node.look()


async def test_a_node_that_starts_while_another_doubts_the_clock_doubts_it_too(
    start: Start, clock: Clock
) -> None:
    node = await start()
    await node.look()
    before = await node.now()
    await clock.advance(DAY)
    await node.look()
    newer = await start(lambda: datetime.now(UTC) + LEAP)
    assert await newer.now() - before < timedelta(seconds=30), "from its first statement on"
    assert "another node doubts it" in (await newer.look() or "")
    assert await newer.now() - before < timedelta(seconds=30)
    # The other node is gone, and the clocks of this machine and of the database agree.
    steady = newer.database.belief.steady
    newer.database.belief.steady = lambda: steady() + clock_guard.ABANDONED_SECONDS
    assert await newer.look() is None


async def test_a_machine_that_stood_still_believes_those_that_did_not(
    start: Start, clock: Clock
) -> None:
    """The virtual machine of one node was paused: its steady clock did not go on."""
    watching, paused = await start(), await start()
    await watching.look()
    await paused.look()
    steady = watching.database.belief.steady
    watching.database.belief.steady = lambda: steady() + DAY
    await clock.advance(DAY)
    assert await watching.look() is None
    assert await paused.look() is None


async def test_a_node_that_starts_under_a_wrong_clock_doubts_it(start: Start, clock: Clock) -> None:
    await clock.advance(DAY)
    node = await start()
    assert "ahead of this node's clock" in (await node.look() or "")
    assert await node.look()
    # When the clocks agree again, it goes on by itself.
    await clock.advance(-DAY)
    assert await node.look() is None


async def test_a_person_confirms_a_clock_that_only_a_newer_node_has_seen(
    start: Start, clock: Clock
) -> None:
    node = await start()
    await node.look()
    await clock.advance(DAY)
    await node.look()
    await confirm(clock)
    # What was confirmed is recorded: a node that starts need not ask.
    assert await (await start()).look() is None


async def test_after_an_outage_of_a_day_the_clock_is_believed(start: Start, clock: Clock) -> None:
    """Nobody was there to watch, and the clock of the machine agrees."""
    await clock.advance(DAY)
    node = await start(lambda: datetime.now(UTC) + LEAP)
    assert await node.look() is None


async def test_a_clock_that_was_behind_at_the_start_may_return(start: Start, clock: Clock) -> None:
    await clock.advance(-3600)
    late = await start()
    assert await late.look() is None
    await clock.advance(3600)
    assert await late.look() is None


@pytest.mark.parametrize("wrong", [-LEAP, LEAP])
async def test_a_node_whose_own_clock_is_wrong_believes_what_was_recorded(
    start: Start, wrong: timedelta
) -> None:
    node = await start(lambda: datetime.now(UTC) + wrong)
    assert await node.look() is None
