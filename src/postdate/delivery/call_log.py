"""The results of the latest calls to each destination, in this process."""

from collections import deque
from typing import Final, NamedTuple

from postdate.destination.spec.call import CallAnswer, CallReport, CallReports
from postdate.destination.spec.trouble import DestinationKey

CALLS: Final = 100
"""How many of its latest calls describe a destination."""

ANSWERS: Final = 10
"""How many of them are told one by one."""

REMEMBERED: Final = 500
"""Maximum number of destinations in a report; the least recently called is dropped first."""


class _Call(NamedTuple):
    at: float
    seconds: float
    succeeded: bool
    answer: str


class _RecentCalls:
    """The latest calls of one destination."""

    __slots__ = ("first_failure", "last_success", "latest", "recorded")

    def __init__(self) -> None:
        self.latest: deque[_Call] = deque(maxlen=CALLS)
        self.recorded = 0
        self.last_success: _Call | None = None
        self.first_failure: _Call | None = None
        """The first since the last success."""

    def record(self, call: _Call) -> None:
        """Remember one call."""
        self.latest.append(call)
        self.recorded += 1
        if call.succeeded:
            self.last_success, self.first_failure = call, None
        elif self.first_failure is None:
            self.first_failure = call

    def answered(self) -> list[_Call]:
        """Return the latest calls, after those between which it began to fail."""
        latest = list(self.latest)[-ANSWERS:]
        turn = (self.last_success, self.first_failure)
        return [*(call for call in turn if call is not None and call not in latest), *latest]


class CallLog:
    """Remembers the latest calls; it is written on every call, so it must be cheap."""

    def __init__(self) -> None:
        self._calls: dict[DestinationKey, _RecentCalls] = {}

    def record(
        self, key: DestinationKey, now: float, seconds: float, *, succeeded: bool, answer: str
    ) -> None:
        """Remember one call."""
        found = self._calls.get(key)
        if found is None:
            if len(self._calls) >= REMEMBERED:
                self._forget_oldest()
            found = self._calls[key] = _RecentCalls()
        found.record(_Call(now, seconds, succeeded, answer))

    def reports(self, now: float) -> CallReports:
        """Return a report for every destination that was called."""
        return {key: _report(calls, now) for key, calls in self._calls.items()}

    def _forget_oldest(self) -> None:
        del self._calls[min(self._calls, key=lambda key: self._calls[key].latest[-1].at)]


def _report(calls: _RecentCalls, now: float) -> CallReport:
    durations = sorted(call.seconds for call in calls.latest)
    return CallReport(
        recorded=calls.recorded,
        calls=len(durations),
        successes=sum(call.succeeded for call in calls.latest),
        p50_ms=round(1000 * durations[len(durations) // 2]),
        p99_ms=round(1000 * durations[len(durations) * 99 // 100]),
        answers=tuple(
            CallAnswer(now - call.at, round(1000 * call.seconds), call.succeeded, call.answer)
            for call in calls.answered()
        ),
    )
