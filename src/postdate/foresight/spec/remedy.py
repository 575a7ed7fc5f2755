"""What would help: how much money is missing and by when, and the causes that payments fail for."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from postdate.foresight.spec.balance import at_instant, first_at
from postdate.foresight.spec.money import (
    ExpectedPayment,
    ExpectedTerms,
    Failure,
    ProjectedAccount,
    ProjectedSettlement,
    ShortAccount,
)

CLOSED: Final = "account_closed"
FROZEN: Final = "account_frozen"
MISSING: Final = "account_missing"


class PayIn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How much money is missing in one currency, and the first instant at which it is."""

    currency: str | None
    amount: int
    by: datetime
    accounts: int


class FailureCause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why payments will fail: a code, and the account that it is about."""

    code: str
    account_id: str
    currency: str | None
    count: int
    amount: int
    """What these payments come to."""
    first_at: datetime
    last_at: datetime


class _CoveredSettlement(ProjectedSettlement):
    """Settles every payment when it is due: what its payer lacks is paid in first, and counted."""

    def __init__(self, accounts: Mapping[str, ProjectedAccount]) -> None:
        super().__init__(accounts)
        self.missing: dict[str, tuple[int, int]] = {}
        """How much each account lacks, and since when."""

    def fall_short(self, at: int, due_at: int, terms: ExpectedTerms) -> None:
        """Pay in what is missing, and settle the payment."""
        payer = terms.from_account_id
        lack = terms.amount - self.free[payer]
        total, since = self.missing.get(payer, (0, at))
        self.missing[payer] = total + lack, since
        self.free[payer] += lack
        self.balance[payer] += lack
        self.settle(first_at(at), due_at, terms)


def covered(
    short: Iterable[ShortAccount],
    accounts: Mapping[str, ProjectedAccount],
    payments: Sequence[ExpectedPayment],
) -> list[ShortAccount]:
    """Add to accounts that fall short how much they miss until the end, the first of them first.

    It is the least that lets each of their payments be settled when due, if every account gets
    what it misses: what one pays in then is a credit of the other.
    """
    found = sorted(short, key=lambda each: each.first_short_at)
    if not found:
        return []
    settlement = _CoveredSettlement(accounts)
    settlement.settle_all(payments)
    return [_with_missing(each, settlement.missing.get(each.account_id)) for each in found]


def _with_missing(short: ShortAccount, missing: tuple[int, int] | None) -> ShortAccount:
    if missing is None:
        return short
    amount, since = missing
    return msgspec.structs.replace(short, missing=amount, pay_in_by=at_instant(since))


def pay_ins(short: Iterable[ShortAccount]) -> list[PayIn]:
    """Add up what is missing by currency, the most urgent first."""
    found: dict[str | None, PayIn] = {}
    for each in short:
        if each.pay_in_by is None:
            continue
        known = found.get(each.currency)
        found[each.currency] = PayIn(
            currency=each.currency,
            amount=each.missing + (known.amount if known else 0),
            by=min(each.pay_in_by, known.by) if known else each.pay_in_by,
            accounts=1 + (known.accounts if known else 0),
        )
    return sorted(found.values(), key=lambda each: each.by)


def failure_causes(
    failures: Iterable[Failure], accounts: Mapping[str, ProjectedAccount]
) -> list[FailureCause]:
    """Group failures by their code and the account at fault, the first of them first."""
    found: dict[tuple[str, str, str | None], FailureCause] = {}
    for fails_at, _, code, _, terms in failures:
        payer = accounts.get(terms.from_account_id)
        currency = None if payer is None else payer.currency
        key = code, account_at_fault(code, terms, accounts), currency
        known, at = found.get(key), at_instant(fails_at)
        found[key] = FailureCause(
            code=code,
            account_id=key[1],
            currency=currency,
            count=1 + (known.count if known else 0),
            amount=terms.amount + (known.amount if known else 0),
            first_at=known.first_at if known else at,
            last_at=at,
        )
    return list(found.values())


def account_at_fault(
    code: str, terms: ExpectedTerms, accounts: Mapping[str, ProjectedAccount]
) -> str:
    """Return the account that a failure is about: the payer, unless the payee is the reason."""
    payer = accounts.get(terms.from_account_id)
    payer_is_fine = {
        CLOSED: payer is not None and not payer.closed,
        FROZEN: payer is not None and (payer.closed or not payer.frozen),
        MISSING: payer is not None,
        "balance_above_limit": True,
    }
    return terms.to_account_id if payer_is_fine.get(code, False) else terms.from_account_id
