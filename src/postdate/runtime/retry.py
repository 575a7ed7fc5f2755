"""The retry ladder: a batch is tried again, then in halves, until the item that breaks it is alone.

Whatever a stage writes in batches fails in one of two ways. Either the database failed temporarily:
the same statements are sent again, after a pause. Or one item cannot be written, and must not delay
the others: halving finds it in few steps, and its stage decides how to handle it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from postdate.core.log import Log
from postdate.database.connection.error import TransientError

Item = TypeVar("Item")
Result = TypeVar("Result")

log = Log()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double, up to a longest one."""

    first_seconds: float
    max_seconds: float

    def pause(self, failures: int) -> float:
        """Return how long to wait after a number of consecutive failures, the first being 1."""
        return min(self.first_seconds * 2.0 ** min(failures - 1, 20), self.max_seconds)


AT_ONCE = Backoff(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """How often something is tried, and how long to wait in between."""

    transient: int | None = 1
    """Tries while the database falters; None means that it is waited for, however long."""

    alone: int = 1
    """Tries of an item that fails by itself: what fails may pass in a moment."""

    backoff: Backoff = AT_ONCE
    passing: tuple[type[Exception], ...] = (TransientError,)
    """The errors that are no item's fault: the same for all, and not a reason to halve."""


class RetryLadder(Generic[Item, Result]):
    """Writes batches by `attempt`; `give_up` handles an item that breaks every batch.

    An error that is still transient after its last try is raised. Where halves remain then, they
    have not been tried.
    """

    def __init__(
        self,
        name: str,
        attempt: Callable[[Sequence[Item]], Awaitable[Result]],
        give_up: Callable[[Item, Exception], Awaitable[Result]],
        tries: RetryLimits,
    ) -> None:
        self._name = name
        self._attempt = attempt
        self._give_up = give_up
        self._tries = tries

    async def run(self, items: Sequence[Item]) -> list[Result]:
        """Write these items, and return one result for each batch that they became."""
        try:
            return [await self._retry_passing(items)]
        except self._tries.passing:
            raise
        except Exception as error:  # noqa: BLE001 - it belongs to one item
            return await self.divide(items, error)

    async def divide(self, items: Sequence[Item], error: Exception) -> list[Result]:
        """Find the item that broke a batch: write the halves, or give up the one that is left."""
        if len(items) == 1:
            return [await self._give_up(items[0], error)]
        log.warning("batch.halved", stage=self._name, items=len(items), error=repr(error))
        middle = len(items) // 2
        first = await self.run(items[:middle])
        return first + await self.run(items[middle:])

    async def _retry_passing(self, items: Sequence[Item]) -> Result:
        failures = alone = 0
        while True:
            try:
                return await self._attempt(items)
            except self._tries.passing as error:
                failures += 1
                if failures == self._tries.transient:
                    raise
                log.info("batch.delayed", stage=self._name, items=len(items), error=repr(error))
            except Exception as error:
                alone += 1
                if len(items) > 1 or alone >= self._tries.alone:
                    raise
                log.warning("batch.failed", stage=self._name, error=repr(error))
            await asyncio.sleep(self._tries.backoff.pause(failures + alone))
