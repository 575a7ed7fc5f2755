"""What the scheduler is handed: to make jobs and payments with, and to let itself be followed."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from postdate.model.error import Refusal
from postdate.model.schedule.firing import Fired, Firing
from postdate.store.connection.database import Connection


class Firer(Protocol):
    """Intake's batch function: it writes in the caller's transaction."""

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert what each occurrence becomes; return one outcome for each, in order."""
        ...

    async def cancel(self, connection: Connection, running: Sequence[tuple[int, UUID]]) -> None:
        """End jobs whose place the next occurrence takes, by tenant and id."""
        ...

    def announce(self, fired: Iterable[Fired | Refusal]) -> None:
        """Hint after the commit that there is work."""
        ...


class Spans(Protocol):
    """Follows what one batch makes."""

    def begin(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        """Start a trace span for each; the job or payment it becomes continues it."""
        ...

    def end(self, fired: Sequence[Fired | Refusal]) -> None:
        """Note after the commit what became of each, in order."""
        ...


Follow = Callable[[int], AbstractContextManager[Spans]]
"""Follows a batch of one bucket; whatever leaves the context with an error has failed."""


class _NoSpans:
    """Nobody follows."""

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, firings: Sequence[Firing]) -> Sequence[Firing]:
        return firings

    def end(self, fired: Sequence[Fired | Refusal]) -> None:
        pass


_NOBODY: Final = _NoSpans()


def untraced(_: int) -> AbstractContextManager[Spans]:
    """Follow nothing, at no cost."""
    return _NOBODY
