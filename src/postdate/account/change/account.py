"""Create, change, freeze and close accounts."""

from typing import Final

import msgspec

from postdate.account.spec import AccountSpec, AccountView
from postdate.account.store import account as account_store
from postdate.account.store.account import AccountTerms, key_of
from postdate.account.view.account import ACCOUNT
from postdate.core.identity import Identity, Scope
from postdate.core.ids import new_id
from postdate.core.money import ISSUER, MAX_AMOUNT
from postdate.ledger import account as ledger
from postdate.payment.spec.payment import amount_limits
from postdate.resource.change import Change, Changes, Given
from postdate.tenant.change.quota import check_accounts
from postdate.words.error import Code, RefusedError, not_found, refuse

ASSIGNED: Final = "acc_"
"""What an id that we choose begins with."""


class Accounts(Changes):
    """Changes everything about accounts except their money."""

    @ACCOUNT.create(
        errors=(
            Code.ACCOUNT_EXISTS,
            Code.ACCOUNT_RESERVED,
            Code.INSUFFICIENT_FUNDS,
            Code.QUOTA_EXCEEDED,
        )
    )
    async def create(self, change: Change[Identity], spec: AccountSpec) -> AccountView:
        """Create an account.

        It starts empty; `POST /accounts/{account_id}/adjustments` adds money.
        """
        actor = change.actor
        given = spec.account_id or ASSIGNED + new_id(0, self.database.unix_ms()).hex
        if not actor.covers([given]):
            raise refuse(Code.FORBIDDEN, "The key is limited to other accounts.", "account_id")
        terms = AccountTerms(spec.floor, spec.max_amount, spec.note)
        self._check(actor, msgspec.structs.asdict(spec), AccountTerms(), terms)
        if given == ISSUER:
            raise refuse(Code.ACCOUNT_RESERVED, f"{ISSUER} is a reserved id.", "account_id")
        if spec.floor > 0:
            raise refuse(Code.INSUFFICIENT_FUNDS, "A new account has 0 available.", "floor")
        await check_accounts(change.connection, self.settings, actor.tenant_id)
        key = key_of(actor.tenant_id, given)
        made = await account_store.create(change.connection, key, terms, spec.currency)
        if made is None:
            detail = f"There is an account {given} already."
            raise refuse(Code.ACCOUNT_EXISTS, detail, "account_id")
        await _record(change, made)
        return made

    @ACCOUNT.change(errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED, Code.INSUFFICIENT_FUNDS))
    async def change(self, change: Change[Identity], account_id: str, given: Given) -> AccountView:
        """Change the limits or the note of an account.

        What is absent stays as it is; payments that were accepted keep their terms.
        """
        return await self._change(change, account_id, given)

    @ACCOUNT.act("freeze", "frozen", errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED))
    async def freeze(self, change: Change[Identity], account_id: str) -> AccountView:
        """Freeze an account: refuse every new payment from or to it.

        Payments that come due while it is frozen fail with `account_frozen`.
        """
        return await self._change(change, account_id, {"frozen": True})

    @ACCOUNT.act("unfreeze", "unfrozen", errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED))
    async def unfreeze(self, change: Change[Identity], account_id: str) -> AccountView:
        """Unfreeze an account: allow payments from and to it again.

        Payments that failed while it was frozen stay failed.
        """
        return await self._change(change, account_id, {"frozen": False})

    @ACCOUNT.delete(
        "close_account", event="closed", errors=(Code.ACCOUNT_NOT_EMPTY, Code.ACCOUNT_RESERVED)
    )
    async def close(self, change: Change[Identity], account_id: str) -> AccountView:
        """Close an empty account forever.

        Refused while it has money or open holds. Its history and its id stay. Payments to it that
        are still pending fail when they are due.
        """
        return await self._change(change, account_id, {"closed": True})

    async def _change(self, change: Change[Identity], account_id: str, given: Given) -> AccountView:
        allow(change.actor, account_id)
        key = key_of(change.tenant_id, account_id)
        locked = (await account_store.lock(change.connection, [key])).get(key)
        found = await account_store.find(change.connection, key)
        if locked is None or found is None:
            raise not_found("account", account_id)
        before = _terms(found)
        after = msgspec.structs.replace(before, **given)
        self._check(change.actor, given, before, after)
        refusal = ledger.change(locked, before, after)
        if refusal is not None:
            raise RefusedError(refusal)
        if after == before:
            return found
        changed = await account_store.change(change.connection, key, after)
        await _record(change, changed)
        return changed

    def _check(
        self, actor: Identity, given: Given, before: AccountTerms, after: AccountTerms
    ) -> None:
        """Refuse limits that the key, or the tenant, may not set."""
        _allow_floor(actor, given.get("floor", 0))
        most = amount_limits(self.settings, actor.tenant_id).for_account(MAX_AMOUNT)
        if (given.get("max_amount") or 0) > most:
            detail = f"An account of this tenant may pay at most {most} at a time."
            raise refuse(Code.INVALID_FIELD, detail, "max_amount")
        if actor.accounts is not None:
            tenant_max = self.settings.integer("payment.max_amount", actor.tenant_id)
            _refuse_lifting(before, after, tenant_max)


async def _record(change: Change[Identity], found: AccountView) -> None:
    data: dict[str, object] = {
        "account_id": found.account_id,
        "floor": found.floor,
        "max_amount": found.max_amount,
        "note": found.note,
    }
    if found.currency is not None:
        data["currency"] = found.currency
    await change.record(found.account_id, data)


def allow(actor: Identity, account_id: str) -> None:
    """Limit a key to its accounts; others look missing to it."""
    if actor.accounts is not None and account_id not in actor.accounts:
        raise not_found("account", account_id)


def _allow_floor(actor: Identity, floor: int) -> None:
    # Spending below zero creates money.
    if floor < 0 and not actor.allows(Scope.LEDGER_ADJUST):
        detail = f"A floor below 0 needs the scope `{Scope.LEDGER_ADJUST}`."
        raise refuse(Code.FORBIDDEN, detail, "floor", scope=Scope.LEDGER_ADJUST)


def _refuse_lifting(before: AccountTerms, after: AccountTerms, tenant_max: int) -> None:
    """Refuse a key limited to accounts if it would lift a restriction on them."""
    lifted = None
    if before.frozen and not after.frozen:
        lifted = "frozen_at"
    elif _lifts_amount(before.max_amount, after.max_amount, tenant_max):
        lifted = "max_amount"
    elif before.floor is not None and (after.floor is None or after.floor < before.floor):
        lifted = "floor"
    if lifted is not None:
        detail = f"A key limited to accounts cannot lift a restriction on them: see `{lifted}`."
        raise refuse(Code.FORBIDDEN, detail, lifted)


def _lifts_amount(before: int | None, after: int | None, tenant_max: int) -> bool:
    """Return whether a new limit is higher; an account without its own limit has its tenant's."""
    if before is None:
        return after is not None and after > tenant_max
    return after is None or after > before


def _terms(row: AccountView) -> AccountTerms:
    return AccountTerms(
        floor=row.floor,
        max_amount=row.max_amount,
        note=row.note,
        frozen=row.frozen_at is not None,
        closed=row.closed_at is not None,
    )
