"""Log lines for single jobs and payments: switched on by the operator, at a bounded rate."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from postdate.core.log import Log
from postdate.job.spec.verdict import End, Keep, Move, Verdict, event_type

log = Log()

REPORT_SECONDS: Final = 10.0
"""How often a line may say how many lines were left out."""

T = TypeVar("T")


class ItemLog:
    """Lines of one process. Each has ids, times and codes; no payload, no amount, no account."""

    def __init__(self) -> None:
        self._what: frozenset[str] = frozenset()
        self._per_second = 0
        self._tokens = 0.0
        self._filled_at = 0.0
        self._left_out = 0
        self._reported_at = 0.0

    def configure(self, what: Collection[str], per_second: int) -> None:
        """Turn on lines of some kinds, at most `per_second` of them."""
        self._what, self._per_second = frozenset(what), per_second
        self._tokens, self._filled_at = float(per_second), time.monotonic()

    def is_enabled(self, what: str) -> bool:
        """Return whether lines are turned on; check this before building their fields."""
        return what in self._what

    def write(
        self, name: str, items: Sequence[T], fields: Callable[[T], Mapping[str, Any]]
    ) -> None:
        """Write a line for each item, within the rate limit; `fields` returns its fields."""
        if not items:
            return
        allowed = self._take(len(items))
        for item in items[:allowed]:
            log.info(name, **fields(item))
        self._left_out += len(items) - allowed
        self._report()

    def _take(self, count: int) -> int:
        now = time.monotonic()
        filled = self._tokens + (now - self._filled_at) * self._per_second
        self._tokens, self._filled_at = min(filled, float(self._per_second)), now
        allowed = min(count, int(self._tokens))
        self._tokens -= allowed
        return allowed

    def _report(self) -> None:
        now = time.monotonic()
        if self._left_out and now >= self._reported_at + REPORT_SECONDS:
            log.warning("items.left_out", count=self._left_out, per_second=self._per_second)
            self._left_out, self._reported_at = 0, now


items: Final = ItemLog()
"""The one of this process, as there is one log."""


def write_endings(ended: Iterable[tuple[UUID, int, Verdict]]) -> None:
    """Write the results of attempts: the job, the number of the attempt, and the verdict."""
    if not (items.is_enabled("settled") or items.is_enabled("failed")):
        return
    found: dict[str, list[tuple[UUID, int, End | Move]]] = {}
    for job_id, attempt, verdict in ended:
        if not isinstance(verdict, Keep) and (name := event_type(verdict)) is not None:
            found.setdefault(name, []).append((job_id, attempt, verdict))
    for name, group in found.items():
        if items.is_enabled("settled" if name == "job.completed" else "failed"):
            items.write(name, group, _ending)


def _ending(ended: tuple[UUID, int, End | Move]) -> dict[str, Any]:
    job_id, attempt, verdict = ended
    line = {"job_id": str(job_id), "attempt": attempt}
    return line if verdict.code is None else line | {"code": verdict.code}
