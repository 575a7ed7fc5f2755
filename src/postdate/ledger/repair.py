"""Decide what an account's numbers must be, from its entries and its open payments."""

from collections.abc import Sequence

import msgspec

from postdate.account.store.account import Account
from postdate.account.store.repair import Jump, Numbers, Witness
from postdate.core.money import money_text
from postdate.words.error import Code, Refusal


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored, what it must be, and the jumps of the running balance that remain."""

    account_id: str
    before: Numbers
    after: Numbers
    jumps: list[Jump]

    @property
    def is_needed(self) -> bool:
        """Return whether anything is wrong: a stored number, or an unexplained jump."""
        return self.before != self.after or bool(self.jumps)

    @property
    def difference(self) -> Numbers:
        """Return what the repair adds to the account, independent of running payments."""
        return Numbers(
            self.after.balance - self.before.balance,
            self.after.held - self.before.held,
            self.after.version - self.before.version,
        )


def decide(
    account: Account, said: Witness, jumps: Sequence[Jump], explained: Sequence[Jump]
) -> Repair | Refusal:
    """Compare a locked account with its entries; refuse if the entries are incomplete."""
    if said.entries and said.version - said.first_version + 1 != said.entries:
        return Refusal(
            Code.CONFLICT,
            f"Entries of {account.account_id} are missing or double between versions "
            f"{said.first_version} and {said.version}: restore them first.",
        )
    balance = said.start + said.amounts
    known = {(jump.version, jump.difference) for jump in explained}
    fresh = [jump for jump in jumps if (jump.version, jump.difference) not in known]
    # The next entry follows the repaired balance, not the last running balance that was written.
    running = said.start + said.amounts + sum(jump.difference for jump in jumps)
    last = (said.version + 1, balance - running)
    if last[1] and last not in known:
        fresh.append(Jump(*last))
    return Repair(
        account_id=account.account_id,
        before=Numbers(account.balance, account.held, account.version),
        after=Numbers(balance, said.held, said.version),
        jumps=fresh,
    )


def check_terms(account: Account, after: Numbers) -> Refusal | None:
    """Refuse numbers that the account's own terms do not allow."""
    if account.floor is not None and after.balance - after.held < account.floor:
        left = money_text(after.balance - after.held, account.currency)
        return Refusal(
            Code.CONFLICT,
            f"{account.account_id} would have {left} available, below its floor of "
            f"{money_text(account.floor, account.currency)}: lower the floor first.",
            "floor",
        )
    if account.closed_at is not None and (after.balance or after.held):
        return Refusal(Code.ACCOUNT_CLOSED, f"The account {account.account_id} is closed.")
    return None
