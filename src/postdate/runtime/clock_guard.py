"""Watch the database's clock: a leap ahead must not make anything due, expire or end."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database import clock_watch as store
from postdate.database.clock_watch import WatchedClock
from postdate.database.connection.database import Database
from postdate.runtime.shared_read import SharedReads

log = Log()

STEP: Final = "clock.step_seconds"
LOOK_SECONDS: Final = 1.8
"""How often a node compares the clocks. Statements compare for themselves, at once."""

RECORD_SECONDS: Final = 2.0
"""How old the recorded time may be before a node records another."""

ABANDONED_SECONDS: Final = 15.0
"""A doubt is dropped when its node has recorded nothing for this long."""


def node_time() -> datetime:
    """Read this machine's own clock, for comparison only."""
    return datetime.now(UTC)


class ClockGuard:
    """Decides for one process how far it believes the database's clock.

    The first time is believed if it is not ahead of the last recorded one, or else not ahead of
    this machine's clock while no other node doubts it. After that only the steady clock counts, a
    person, and nodes that have watched for longer than this one.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        reads: SharedReads | None = None,
        node_clock: Callable[[], datetime] = node_time,
    ) -> None:
        self._database = database
        self._belief = database.belief
        self._settings = settings
        self._reads = reads or SharedReads(database)
        self._node_clock = node_clock
        self._since: datetime | None = None
        self._confirmations = 0
        # What another node recorded last, and when this one saw it first.
        self._recorded: tuple[datetime, float] | None = None

    def doubt(self) -> str | None:
        """Return why the database's clock is not believed, or None."""
        return self._belief.doubt

    async def run_once(self, _: int = 1) -> int:
        """Compare the clocks once, and record the time; the step of a loop."""
        seen = await self.look()
        if self._since is not None:
            await self._record(seen, self._since)
        return 0

    async def look(self) -> WatchedClock:
        """Compare the clocks, and write nothing: a start must not wait for a commit."""
        seen = await store.read(self._reads)
        step = self._settings.number(STEP)
        wrong = self._fault_at_start(seen, step) if self._since is None else self._leap(seen, step)
        if wrong is None:
            self._confirmations = seen.confirmations
        self._log_change(wrong)
        return seen

    def _fault_at_start(self, seen: WatchedClock, step: float) -> str | None:
        """Return why the first time is not believed; until one is, the recorded time goes on."""
        if _ahead(seen.machine, seen.at) > step and (wrong := self._unwitnessed(seen, step)):
            if self._belief.now() < seen.at:
                self._belief.trust(seen.at, seen.at, step)
            return wrong
        # A clock behind the last believed time may return to it: that is not a leap.
        self._believe(seen, max(seen.machine, seen.at), step)
        return None

    def _unwitnessed(self, seen: WatchedClock, step: float) -> str | None:
        recorded = f"{_ahead(seen.machine, seen.at):.0f} s ahead of the last recorded time"
        if seen.doubt is not None and not self._abandoned(seen):
            return f"is {recorded}, and another node doubts it"
        if (ahead := _ahead(seen.machine, self._node_clock())) > step:
            return f"is {ahead:.0f} s ahead of this node's clock, and {recorded}"
        return None

    def _abandoned(self, seen: WatchedClock) -> bool:
        """Return whether no node has recorded a time for a while."""
        now = self._belief.steady()
        if self._recorded is None or self._recorded[0] != seen.at:
            self._recorded = seen.at, now
        return now - self._recorded[1] >= ABANDONED_SECONDS

    def _leap(self, seen: WatchedClock, step: float) -> str | None:
        last = self._belief.now()
        leap = self._belief.leap(seen.machine, step)
        if leap is None:
            return None
        if _ahead(seen.machine, seen.at) <= step and self._attested(seen, last):
            self._believe(seen, seen.machine, step)
            return None
        return f"leapt {leap:.0f} s ahead"

    def _attested(self, seen: WatchedClock, last: datetime) -> bool:
        """Return whether the recorded time outweighs this machine's steady clock.

        A person has confirmed it, or it is of a node that was watching before this one's last
        check: then it was this machine that stood still. That a doubt has ended confirms nothing:
        the clock may have returned, and leapt again.
        """
        return seen.confirmations > self._confirmations or (
            seen.doubt is None and seen.watched_since <= last and self._since != seen.watched_since
        )

    def _believe(self, seen: WatchedClock, reference: datetime, step: float) -> None:
        self._belief.trust(seen.machine, reference, step)
        self._since = seen.machine

    def _log_change(self, wrong: str | None) -> None:
        """Log what has changed."""
        before = self._belief.doubt
        self._belief.doubt = wrong and (
            f"the database's time {wrong}; until it returns or `postdate settlement resume` "
            "confirms it, everything goes by the time believed before"
        )
        if wrong and not before:
            log.error("clock.doubted", reason=self._belief.doubt)
        elif before and not wrong:
            log.warning("clock.believed")

    async def _record(self, seen: WatchedClock, since: datetime) -> None:
        """Record the believed time, unless another node has just done so."""
        at, doubt = self._belief.shown(seen.machine), self._belief.doubt
        fresh = abs((at - seen.at).total_seconds()) < RECORD_SECONDS
        if fresh and (doubt is None) == (seen.doubt is None):
            return
        async with self._database.connection() as connection:
            await store.record(connection, at, since, self._confirmations, doubt)


def _ahead(at: datetime, witness: datetime) -> float:
    return (at - witness).total_seconds()
