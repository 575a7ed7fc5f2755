"""Commit a group without the items whose accounts are locked elsewhere: only those have to wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

from postdate.account.store.account import AccountKey
from postdate.database.connection.database import Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.intake.idempotency import Refused
from postdate.ledger.locked import LockedAccounts
from postdate.runtime.coalescer import Coalescer
from postdate.words.error import Code, Refusal

WAIT_SECONDS: Final = 3.0
"""How long a request waits for a locked account, without delaying other requests."""

PAUSE_SECONDS: Final = 0.1
MAX_TRIES: Final = 3
"""How often a group is begun again without the accounts that were found to be held."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class AroundBusyAccounts(Generic[Item, Result]):
    """Commits groups of items; `accounts` returns the accounts that an item changes."""

    def __init__(
        self,
        database: Database,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        accounts: Callable[[Item], Collection[AccountKey]],
    ) -> None:
        self._commit = commit
        self._accounts = accounts
        self._locked = LockedAccounts(database)
        self._grouper: Coalescer[Item, Result | None] = Coalescer(self._some, max_groups=1)

    async def submit(self, item: Item) -> Result | Refused:
        """Answer one item, in one commit with whatever else arrives now."""
        until = time.monotonic() + WAIT_SECONDS
        while (outcome := await self._grouper.submit(item)) is None:
            if time.monotonic() >= until:
                return _busy()
            await asyncio.sleep(PAUSE_SECONDS)
        return outcome

    async def commit(self, items: Sequence[Item]) -> list[Result | Refused]:
        """Answer many items of one request in one commit."""
        return [outcome or _busy() for outcome in await self._some(items)]

    async def _some(self, items: Sequence[Item]) -> list[Result | None]:
        """Answer the items whose accounts are free; None for the others."""
        locked = self._locked.looks
        if locked:
            await self._locked.look_again()
        for _ in range(MAX_TRIES):
            waits = [
                bool(locked) and any(key in locked for key in self._accounts(item))
                for item in items
            ]
            free = [item for item, wait in zip(items, waits, strict=True) if not wait]
            try:
                outcomes = iter(await self._commit(free) if free else ())
            except LockNotAvailableError:
                if not await self._locked.find({k for item in free for k in self._accounts(item)}):
                    raise
                continue
            return [None if wait else next(outcomes) for wait in waits]
        return [None] * len(items)


def _busy() -> Refused:
    """Return the refusal for an account that is locked elsewhere; it is never stored."""
    return Refused(
        Refusal(
            Code.OVERLOADED,
            "Another transaction has locked the account.",
            extra={"retry_after_seconds": 1},
        )
    )
