"""Accounts locked by other sessions: left alone, and checked again at growing intervals."""

import time
from collections.abc import Collection
from typing import Final

from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey
from postdate.core.log import Log
from postdate.database.connection.database import Database

log = Log()

FIRST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 1.0
"""Maximum wait between two checks of a locked account."""

DOUBLINGS: Final = 5
"""How often the wait doubles: FIRST_SECONDS to beyond LONGEST_SECONDS."""


class LockedAccounts:
    """Remembers which accounts were locked when a transaction waited for them in vain.

    A transaction that changes many accounts waits half a second for a locked one, then rolls back.
    This class finds out which account it was, so that the next transaction continues without it.
    Whether it is free is then checked without waiting (`SKIP LOCKED`), in one statement for all
    accounts whose check is due.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.looks: dict[AccountKey, tuple[float, int]] = {}
        """The accounts that were locked, with the time of the next check and their number."""

    def __len__(self) -> int:
        return len(self.looks)

    def __contains__(self, key: AccountKey) -> bool:
        return key in self.looks

    async def find(self, keys: Collection[AccountKey]) -> bool:
        """Remember which of the accounts are locked now; return whether any is."""
        held = await self._find_locked(keys)
        for key in held - self.looks.keys():
            log.warning("account.locked", tenant_id=key.tenant_id, account_id=key.account_id)
            self.looks[key] = (time.monotonic() + FIRST_SECONDS, 1)
        return bool(held)

    async def look_again(self) -> None:
        """Forget the accounts that are free now, among those whose check is due."""
        now = time.monotonic()
        due = [key for key, (at, _) in self.looks.items() if at <= now]
        if not due:
            return
        held = await self._find_locked(due)
        # Another request may have looked meanwhile, and forgotten some.
        for key in [key for key in due if key in self.looks]:
            if key not in held:
                log.info("account.free", tenant_id=key.tenant_id, account_id=key.account_id)
                del self.looks[key]
                continue
            looks = self.looks[key][1]
            pause = min(FIRST_SECONDS * 2.0 ** min(looks, DOUBLINGS), LONGEST_SECONDS)
            self.looks[key] = (now + pause, looks + 1)

    async def _find_locked(self, keys: Collection[AccountKey]) -> set[AccountKey]:
        if not keys:
            return set()
        async with self._database.connection() as connection:
            return await account_store.locked(connection, keys)
