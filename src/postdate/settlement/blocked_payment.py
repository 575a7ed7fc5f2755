"""Due payments of accounts that other sessions have locked: left out until these are free."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from postdate.account.store.account import AccountKey, key_of
from postdate.database.connection.database import Database
from postdate.ledger.locked import LockedAccounts
from postdate.payment.store.settlement import Candidate, LockedPayment

MAX_BLOCKED: Final = 50_000
"""Maximum number of payments remembered; more are found and left out repeatedly."""


class BlockedPayments:
    """The payments that one settler leaves out, because their accounts are locked."""

    def __init__(self, database: Database) -> None:
        self.locked = LockedAccounts(database)
        self._payments: dict[UUID, tuple[Candidate, tuple[AccountKey, AccountKey]]] = {}

    def __bool__(self) -> bool:
        return bool(self._payments)

    def __len__(self) -> int:
        return len(self._payments)

    def subjects(self) -> list[UUID]:
        """Return the payments that the next scan leaves out."""
        return list(self._payments)

    def candidates(self) -> list[Candidate]:
        """List the payments left out, in the form in which a scan would have found them."""
        return [candidate for candidate, _ in self._payments.values()]

    def divide(self, payments: Sequence[LockedPayment]) -> Sequence[LockedPayment]:
        """Return what can be settled, and remember what must wait for an account."""
        if not len(self.locked):
            return payments
        free = []
        for payment in payments:
            keys = _accounts(payment)
            if keys is None or not any(key in self.locked for key in keys):
                free.append(payment)
            elif len(self._payments) < MAX_BLOCKED:
                seen = Candidate(payment.due_at, payment.subject, payment.bucket)
                self._payments[payment.subject] = (seen, keys)
        return free

    async def look_again(self) -> None:
        """Return payments whose accounts are free to the queue."""
        if not len(self.locked):
            return
        before = len(self.locked)
        await self.locked.look_again()
        if len(self.locked) < before:
            self._payments = {
                subject: (seen, keys)
                for subject, (seen, keys) in self._payments.items()
                if any(key in self.locked for key in keys)
            }


def _accounts(payment: LockedPayment) -> tuple[AccountKey, AccountKey] | None:
    """Return both accounts; None for a timer without a payment, which raises later."""
    if not payment.from_account:
        return None
    payer = AccountKey(payment.bucket, payment.tenant_id, payment.from_account)
    return payer, key_of(payment.tenant_id, payment.to_account)
