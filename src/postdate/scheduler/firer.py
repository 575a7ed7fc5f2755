"""Interfaces that the scheduler is given: to create jobs and payments, and to trace them."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from postdate.database.connection.database import Connection
from postdate.schedule.spec.firing import Fired, Firing
from postdate.words.error import Refusal


class Firer(Protocol):
    """Intake's batch function: it writes in the caller's transaction."""

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert the job or payment of each occurrence; return one outcome for each, in order."""
        ...

    async def cancel(self, connection: Connection, running: Sequence[tuple[int, UUID]]) -> None:
        """Cancel jobs that the next occurrence replaces, by tenant and id."""
        ...

    def announce(self, fired: Iterable[Fired | Refusal]) -> None:
        """Send hints after the commit that there is work."""
        ...


class Spans(Protocol):
    """The trace spans of one batch."""

    def begin(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        """Start a trace span for each; the job or payment it becomes continues it."""
        ...

    def end(self, fired: Sequence[Fired | Refusal]) -> None:
        """Record the result of each occurrence after the commit, in order."""
        ...


Follow = Callable[[Sequence[int]], AbstractContextManager[Spans]]
"""Follows a batch of some buckets; whatever leaves the context with an error has failed."""


class _NoSpans:
    """Spans that do nothing."""

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        return firings

    def end(self, fired: Sequence[Fired | Refusal]) -> None:
        pass


_NOBODY: Final = _NoSpans()


def untraced(_: Sequence[int]) -> AbstractContextManager[Spans]:
    """Trace nothing."""
    return _NOBODY
