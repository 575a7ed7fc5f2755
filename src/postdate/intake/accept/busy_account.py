"""Answer a group without those whose accounts a stranger holds: they alone have to wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

from postdate.intake.accept.answers import Answer, Ask, refused
from postdate.ledger.locked import LockedAccounts
from postdate.model.error import Code, Refusal
from postdate.runtime.coalescer import Coalescer
from postdate.store.account.account import AccountKey
from postdate.store.connection.database import Database
from postdate.store.connection.error import LockNotAvailableError

WAIT_SECONDS: Final = 3.0
"""How long a request waits for an account that somebody holds, without holding up others."""

PAUSE_SECONDS: Final = 0.1
TRIES: Final = 3
"""How often a group is begun again without the accounts that were found to be held."""

A = TypeVar("A", bound=Ask)


class AroundLocked(Generic[A]):
    """Commits groups of asks; `accounts` names those that an ask changes."""

    def __init__(
        self,
        database: Database,
        commit: Callable[[Sequence[A]], Awaitable[Sequence[Answer]]],
        accounts: Callable[[A], Collection[AccountKey]],
    ) -> None:
        self._commit = commit
        self._accounts = accounts
        self._locked = LockedAccounts(database)
        self._grouper: Coalescer[A, Answer | None] = Coalescer(self._some, max_groups=1)

    async def submit(self, ask: A) -> Answer:
        """Answer one ask, in one commit with whatever else arrives now."""
        until = time.monotonic() + WAIT_SECONDS
        while (answer := await self._grouper.submit(ask)) is None:
            if time.monotonic() >= until:
                return _refused()
            await asyncio.sleep(PAUSE_SECONDS)
        return answer

    async def commit(self, asks: Sequence[A]) -> list[Answer]:
        """Answer many asks of one request in one commit."""
        return [answer or _refused() for answer in await self._some(asks)]

    async def _some(self, asks: Sequence[A]) -> list[Answer | None]:
        """Answer the asks whose accounts are free; None for the others."""
        await self._locked.look_again()
        for _ in range(TRIES):
            waits = [any(key in self._locked for key in self._accounts(ask)) for ask in asks]
            free = [ask for ask, wait in zip(asks, waits, strict=True) if not wait]
            try:
                answers = iter(await self._commit(free) if free else ())
            except LockNotAvailableError:
                if not await self._locked.find({k for ask in free for k in self._accounts(ask)}):
                    raise
                continue
            return [None if wait else next(answers) for wait in waits]
        return [None] * len(asks)


def _refused() -> Answer:
    """Tell that somebody holds the account; not remembered, for it will be free again."""
    return refused(
        Refusal(
            Code.OVERLOADED,
            "Another transaction holds the account just now.",
            extra={"retry_after_seconds": 1},
        )
    )
