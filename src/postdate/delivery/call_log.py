"""The results of the latest calls to each destination, in this process."""

from collections import deque
from typing import Final, NamedTuple

from postdate.model.destination.call import CallAnswer, CallReport, CallReports
from postdate.model.destination.trouble import DestinationKey

CALLS: Final = 100
"""How many of its latest calls describe a destination."""

ANSWERS: Final = 10
REMEMBERED: Final = 500
"""Maximum number of destinations in a report; the least recently called is dropped first."""


class _Call(NamedTuple):
    at: float
    seconds: float
    succeeded: bool
    answer: str


class _RecentCalls:
    """The latest calls of one destination."""

    __slots__ = ("latest", "recorded")

    def __init__(self) -> None:
        self.latest: deque[_Call] = deque(maxlen=CALLS)
        self.recorded = 0


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
        found.latest.append(_Call(now, seconds, succeeded, answer))
        found.recorded += 1

    def reports(self, now: float) -> CallReports:
        """Return a report for every destination that was called."""
        return {key: _report(calls, now) for key, calls in self._calls.items()}

    def _forget_oldest(self) -> None:
        del self._calls[min(self._calls, key=lambda key: self._calls[key].latest[-1].at)]


def _report(calls: _RecentCalls, now: float) -> CallReport:
    durations = sorted(call.seconds for call in calls.latest)
    latest = list(calls.latest)[-ANSWERS:]
    return CallReport(
        recorded=calls.recorded,
        calls=len(durations),
        successes=sum(call.succeeded for call in calls.latest),
        p50_ms=round(1000 * durations[len(durations) // 2]),
        p99_ms=round(1000 * durations[len(durations) * 99 // 100]),
        answers=tuple(
            CallAnswer(now - call.at, round(1000 * call.seconds), call.succeeded, call.answer)
            for call in latest
        ),
    )
