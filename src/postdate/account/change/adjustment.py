"""Adjust accounts: money in and out of a ledger, with a reason, against its issuer."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from postdate.account.change.account import allow
from postdate.account.store import account as account_store
from postdate.account.store import transfer as transfer_store
from postdate.account.store.account import Account, AccountKey, AccountTerms, key_of
from postdate.audit.spec import STAMP, SYSTEM
from postdate.core import origin
from postdate.core.identity import Identity
from postdate.core.ids import new_id
from postdate.core.money import ISSUER
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import account_subject, record_event
from postdate.halt import store as halt_store
from postdate.intake import store as idempotency_store
from postdate.intake.busy_account import AroundBusyAccounts
from postdate.intake.idempotency import (
    CREATED,
    KeyedRequest,
    OpenKeys,
    Refused,
    canonical,
    kept_body,
    kept_under,
    keyed,
)
from postdate.intake.pipeline import AcceptGroup, Known, Pipeline, Strategy
from postdate.intake.store import IdempotencyKey, IdempotencyRow, KeyScope
from postdate.intake.store import key_of as idempotency_key_of
from postdate.ledger.account import adjust, adjustment
from postdate.words.error import Code, Refusal, refuse

if TYPE_CHECKING:
    from postdate.account.store.transfer import NewTransfer


class Adjusted(msgspec.Struct, frozen=True):
    """The answer to an adjustment: the account after it."""

    transfer_id: UUID
    account_id: str
    amount: int
    balance: int
    version: int


class AcceptedAdjustment(msgspec.Struct, frozen=True):
    """An adjustment that was made."""

    body: Adjusted
    replayed: bool = False
    status: int = CREATED

    @property
    def subject(self) -> UUID:
        """Return the id of the transfer."""
        return self.body.transfer_id


AdjustmentAnswer = AcceptedAdjustment | Refused


class AdjustmentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One adjustment of a group."""

    key: str
    keyed: KeyedRequest
    account: AccountKey
    issuer: AccountKey
    amount: int
    reason: str
    actor: str
    stamp: dict[str, str] | None


class AdjustmentStrategy(Strategy[AdjustmentRequest, AdjustmentRequest, AcceptedAdjustment]):
    """How adjustments go through the pipeline: their accounts are always locked first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def locks(self, items: Sequence[AdjustmentRequest | Refusal]) -> bool:  # noqa: ARG002 - all
        """Lock the accounts of every adjustment first."""
        return True

    async def validate(
        self, items: Sequence[AdjustmentRequest]
    ) -> list[AdjustmentRequest | Refusal]:
        """Validate nothing: everything was checked when the request was built."""
        return list(items)

    async def look(
        self,
        connection: Connection,
        items: Sequence[AdjustmentRequest],
        *,
        locked: bool,  # noqa: ARG002 - they always are
    ) -> "AdjustmentGroup":
        """Read the keys, refuse halted tenants, and lock the accounts."""
        known = await idempotency_store.find(connection, [each.keyed.key for each in items])
        fresh = [each for each in items if each.keyed.key not in known]
        await halt_store.refuse_held(connection, sorted({each.account.tenant_id for each in fresh}))
        keys = {key for each in fresh for key in (each.account, each.issuer)}
        accounts = await account_store.lock(connection, keys) if keys else {}
        now = await clock.now(connection)
        return AdjustmentGroup(now, known, accounts, self._database)

    def stored_answer(self, known: Known[AdjustmentRequest]) -> AdjustmentAnswer:
        """Return the adjustment or refusal that is stored under a key."""
        body = kept_body(known.row, Adjusted)
        return (
            super().stored_answer(known)
            if body is None
            else AcceptedAdjustment(body, replayed=True)
        )


class Adjustments:
    """Moves money between accounts and their tenant's issuer."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open_keys = OpenKeys()
        self._issuers: set[int] = set()
        pipeline = Pipeline(database, AdjustmentStrategy(database))
        self._around: AroundBusyAccounts[AdjustmentRequest, AdjustmentAnswer] = AroundBusyAccounts(
            database, pipeline.accept, lambda item: (item.account, item.issuer)
        )

    async def adjust(
        self, actor: Identity, account_id: str, amount: int, reason: str, key: str
    ) -> AdjustmentAnswer:
        """Credit an account, or debit it by a negative amount."""
        allow(actor, account_id)
        if actor.max_amount is not None and abs(amount) > actor.max_amount:
            raise refuse(Code.FORBIDDEN, f"The key may move at most {actor.max_amount}.", "amount")
        await self._ensure_issuer(actor.tenant_id)
        idempotency_key = idempotency_key_of(actor.tenant_id, KeyScope.ADJUSTMENT, key)
        asked = canonical({"account_id": account_id, "amount": amount, "reason": reason})
        item = AdjustmentRequest(
            key=key,
            keyed=keyed(idempotency_key, asked, actor.accounts),
            account=key_of(actor.tenant_id, account_id),
            issuer=key_of(actor.tenant_id, ISSUER),
            amount=amount,
            reason=reason,
            actor=actor.key_id,
            stamp=origin.stamp(),
        )
        with self._open_keys.hold(idempotency_key):
            return await self._around.submit(item)

    async def _ensure_issuer(self, tenant_id: int) -> None:
        if tenant_id not in self._issuers:
            key = key_of(tenant_id, ISSUER)
            async with self._database.write("account.issuer") as connection:
                made = await account_store.create(
                    connection, key, AccountTerms(floor=None, note="The issuer.")
                )
                if made is not None:
                    about = account_subject(tenant_id, ISSUER)
                    data = {"account_id": ISSUER, "note": made.note}
                    await record_event(connection, about, "account.created", SYSTEM, data)
            self._issuers.add(tenant_id)


class AdjustmentGroup(AcceptGroup[AdjustmentRequest, AcceptedAdjustment]):
    """The rows of a group of adjustments, filled item by item."""

    remembers_refusals = True

    def __init__(
        self,
        now: datetime,
        known: Mapping[IdempotencyKey, IdempotencyRow],
        accounts: dict[AccountKey, Account],
        database: Database,
    ) -> None:
        super().__init__(now, known)
        self._accounts = accounts
        self._database = database
        self._touched: set[AccountKey] = set()
        self._transfers: list[NewTransfer] = []
        self._events: list[tuple[AdjustmentRequest, dict[str, Any]]] = []

    def begin(self, items: Sequence[AdjustmentRequest | Refusal]) -> None:
        """Prepare nothing."""

    def decide(self, number: int, item: AdjustmentRequest) -> AcceptedAdjustment | Refusal:
        """Accept or refuse one adjustment, taking those before it into account."""
        del number
        issuer = self._accounts.get(item.issuer)
        if issuer is None:
            detail = "The issuer's account is missing: have the operator run `postdate prove`."
            return Refusal(Code.CONFLICT, detail)
        account = adjust(
            self._accounts.get(item.account), issuer, item.account.account_id, item.amount
        )
        if isinstance(account, Refusal):
            return account
        transfer_id = new_id(account.bucket, self._database.unix_ms())
        self._touched |= {item.account, item.issuer}
        self._transfers.append(adjustment(account, issuer, transfer_id, item.amount, item.reason))
        body = Adjusted(
            transfer_id, account.account_id, item.amount, account.balance, account.version
        )
        data: dict[str, Any] = msgspec.to_builtins(body) | {
            "reason": item.reason,
            "idempotency_key": item.key,
        }
        if item.stamp is not None:
            data[STAMP] = item.stamp
        self._events.append((item, {"account_id": account.account_id, **data}))
        return AcceptedAdjustment(body)

    def row(self, request: KeyedRequest, made: AcceptedAdjustment) -> IdempotencyRow:
        """Store the answer, because balance and version after it cannot be looked up by id."""
        return kept_under(request, made.body, self.now, made.subject)

    async def write(self, connection: Connection) -> None:
        """Write balances, transfers and events, and the keys last."""
        await account_store.write(connection, [self._accounts[key] for key in self._touched])
        await transfer_store.insert(connection, self._transfers)
        for item, data in self._events:
            about = account_subject(item.account.tenant_id, item.account.account_id)
            await record_event(connection, about, "account.adjusted", item.actor, data)
        await idempotency_store.insert(connection, self.keys)
