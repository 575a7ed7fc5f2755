"""Create, change, freeze and close accounts."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey, AccountRow, AccountTerms, key_of
from postdate.core.identity import Identity, Scope
from postdate.core.ids import new_id
from postdate.core.money import ISSUER, MAX_AMOUNT
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import account_subject, record_event
from postdate.intake.create_once import Remember, forget
from postdate.ledger import account as ledger
from postdate.payment.spec.payment import amount_limits
from postdate.tenant.change.quota import check_accounts
from postdate.words.error import Code, RefusedError, not_found, refuse

ASSIGNED: Final = "acc_"
"""What an id that we choose begins with."""


class AccountChange(msgspec.Struct, frozen=True, kw_only=True):
    """New limits of an account; unset fields stay as they are."""

    floor: int | UnsetType = UNSET
    max_amount: int | UnsetType | None = UNSET
    note: str | UnsetType | None = UNSET

    def amend(self, terms: AccountTerms) -> AccountTerms:
        """Return the terms with these changes."""
        given = msgspec.structs.asdict(self).items()
        return msgspec.structs.replace(terms, **{n: v for n, v in given if v is not UNSET})


class Accounts:
    """Changes everything about accounts except their money."""

    def __init__(self, database: Database, settings: Settings | None = None) -> None:
        self._database = database
        self._settings = settings or Settings()

    async def create(
        self,
        actor: Identity,
        account_id: str | None,
        limits: AccountChange,
        remember: Remember[AccountRow] = forget,
        *,
        currency: str | None = None,
    ) -> AccountRow:
        """Create an empty account under the given id, or under one of ours."""
        given = account_id or ASSIGNED + new_id(0, self._database.unix_ms()).hex
        if not actor.covers([given]):
            raise refuse(Code.FORBIDDEN, "The key is limited to other accounts.", "account_id")
        _allow_floor(actor, limits)
        self._check_max_amount(actor, limits)
        terms = limits.amend(AccountTerms())
        if actor.accounts is not None:
            _refuse_lifting(AccountTerms(), terms, self._tenant_max(actor))
        if given == ISSUER:
            raise refuse(Code.ACCOUNT_RESERVED, f"{ISSUER} is a reserved id.", "account_id")
        if terms.floor is not None and terms.floor > 0:
            raise refuse(Code.INSUFFICIENT_FUNDS, "A new account has 0 available.", "floor")
        key = key_of(actor.tenant_id, given)
        async with self._database.write("account.create") as connection:
            await check_accounts(connection, self._settings, actor.tenant_id)
            row = await account_store.create(connection, key, terms, currency)
            if row is None:
                raise refuse(
                    Code.ACCOUNT_EXISTS, f"There is an account {given} already.", "account_id"
                )
            await self._record(connection, key, "account.created", actor, row)
            await remember(connection, row)
        return row

    async def change(self, actor: Identity, account_id: str, wanted: AccountChange) -> AccountRow:
        """Set limits and the note."""
        _allow_floor(actor, wanted)
        self._check_max_amount(actor, wanted)
        return await self._change(actor, account_id, "account.changed", wanted.amend)

    async def freeze(self, actor: Identity, account_id: str) -> AccountRow:
        """Freeze an account: refuse every new payment from or to it."""
        return await self._change(
            actor, account_id, "account.frozen", lambda t: msgspec.structs.replace(t, frozen=True)
        )

    async def unfreeze(self, actor: Identity, account_id: str) -> AccountRow:
        """Allow payments again."""
        return await self._change(
            actor,
            account_id,
            "account.unfrozen",
            lambda t: msgspec.structs.replace(t, frozen=False),
        )

    async def close(self, actor: Identity, account_id: str) -> AccountRow:
        """Close an empty account forever; its history stays."""
        return await self._change(
            actor, account_id, "account.closed", lambda t: msgspec.structs.replace(t, closed=True)
        )

    async def _change(
        self,
        actor: Identity,
        account_id: str,
        event: str,
        amend: Callable[[AccountTerms], AccountTerms],
    ) -> AccountRow:
        allow(actor, account_id)
        key = key_of(actor.tenant_id, account_id)
        async with self._database.write("account.change") as connection:
            locked = (await account_store.lock(connection, [key])).get(key)
            row = await account_store.find(connection, key)
            if locked is None or row is None:
                raise not_found("account", account_id)
            before = _terms(row)
            after = amend(before)
            if actor.accounts is not None:
                _refuse_lifting(before, after, self._tenant_max(actor))
            refusal = ledger.change(locked, before, after)
            if refusal is not None:
                raise RefusedError(refusal)
            if after == before:
                return row
            row = await account_store.change(connection, key, after)
            await self._record(connection, key, event, actor, row)
        return row

    def _check_max_amount(self, actor: Identity, wanted: AccountChange) -> None:
        """Refuse a limit above what the tenant's own limits let any account pay."""
        if wanted.max_amount is UNSET or wanted.max_amount is None:
            return
        most = amount_limits(self._settings, actor.tenant_id).for_account(MAX_AMOUNT)
        if wanted.max_amount > most:
            detail = f"An account of this tenant may pay at most {most} at a time."
            raise refuse(Code.INVALID_FIELD, detail, "max_amount")

    def _tenant_max(self, actor: Identity) -> int:
        return self._settings.integer("payment.max_amount", actor.tenant_id)

    async def _record(
        self, connection: Connection, key: AccountKey, kind: str, actor: Identity, row: AccountRow
    ) -> None:
        data = {
            "account_id": row.account_id,
            "floor": row.floor,
            "max_amount": row.max_amount,
            "note": row.note,
        }
        if row.currency is not None:
            data["currency"] = row.currency
        about = account_subject(key.tenant_id, key.account_id)
        await record_event(connection, about, kind, actor.key_id, data)


def allow(actor: Identity, account_id: str) -> None:
    """Limit a key to its accounts; others look missing to it."""
    if actor.accounts is not None and account_id not in actor.accounts:
        raise not_found("account", account_id)


def _allow_floor(actor: Identity, limits: AccountChange) -> None:
    # Spending below zero creates money.
    below = limits.floor is not UNSET and limits.floor < 0
    if below and not actor.allows(Scope.LEDGER_ADJUST):
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


def _terms(row: AccountRow) -> AccountTerms:
    return AccountTerms(
        floor=row.floor,
        max_amount=row.max_amount,
        note=row.note,
        frozen=row.frozen_at is not None,
        closed=row.closed_at is not None,
    )
