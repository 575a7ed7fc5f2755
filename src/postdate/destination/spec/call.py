"""The latest calls of a destination by one node: how many succeeded, how long they took."""

from typing import NamedTuple

from postdate.destination.spec.trouble import DestinationKey


class CallAnswer(NamedTuple):
    """The result of one call: how long ago, how long it took, and a short summary."""

    seconds_ago: float
    duration_ms: int
    succeeded: bool
    answer: str


class CallReport(NamedTuple):
    """The latest calls of one destination by one process; the newest answer comes last.

    Before the latest answers come the last success and the first failure after it.
    """

    recorded: int
    calls: int
    successes: int
    p50_ms: int
    p99_ms: int
    answers: tuple[CallAnswer, ...]


CallReports = dict[DestinationKey, CallReport]
