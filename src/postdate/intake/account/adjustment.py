"""Adjust accounts: money in and out of a ledger, with a reason, against its issuer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from postdate.intake.accept.answers import Answer, Answers, Ask, commit, created, refused
from postdate.intake.accept.busy_account import AroundLocked
from postdate.intake.accept.idempotency import InFlight, canonical
from postdate.intake.account.account import account_event, allow
from postdate.ledger.account import adjust, adjustment
from postdate.model import origin
from postdate.model.error import Code, Refusal, refuse
from postdate.model.event.audit import STAMP
from postdate.model.ids import new_id
from postdate.model.payment.money import ISSUER
from postdate.model.tenant.identity import Identity
from postdate.store.account import account as account_store
from postdate.store.account import entry as entry_store
from postdate.store.account.account import Account, AccountKey, AccountTerms, key_of
from postdate.store.connection.database import Connection, Database
from postdate.store.event import event as event_store
from postdate.store.idempotency.idempotency import key_of as idempotency_key_of
from postdate.store.tenant import halt as halt_store

if TYPE_CHECKING:
    from postdate.store.account.entry import NewEntry
    from postdate.store.event.event import NewEvent

SCOPE: Final = "adjustment"
SYSTEM: Final = "system"


class Adjusted(msgspec.Struct, frozen=True):
    """The answer to an adjustment: the account after it."""

    transfer_id: UUID
    account_id: str
    amount: int
    balance: int
    version: int


class AdjustmentAsk(Ask, frozen=True, kw_only=True):
    """One adjustment of a group."""

    account: AccountKey
    issuer: AccountKey
    amount: int
    reason: str
    actor: str
    came: dict[str, str] | None


class Adjustments:
    """Move money between accounts and the issuer of their tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._in_flight = InFlight()
        self._issuers: set[int] = set()
        self._around = AroundLocked(database, self._commit, lambda ask: (ask.account, ask.issuer))

    async def adjust(
        self, who: Identity, account_id: str, amount: int, reason: str, key: str
    ) -> Answer:
        """Credit an account, or debit it by a negative amount."""
        allow(who, account_id)
        if who.max_amount is not None and abs(amount) > who.max_amount:
            raise refuse(Code.FORBIDDEN, f"The key may move {who.max_amount} at most.", "amount")
        await self._ensure_issuer(who.tenant_id)
        ask = AdjustmentAsk(
            key=idempotency_key_of(who.tenant_id, SCOPE, key),
            request=canonical({"account_id": account_id, "amount": amount, "reason": reason}),
            account=key_of(who.tenant_id, account_id),
            issuer=key_of(who.tenant_id, ISSUER),
            amount=amount,
            reason=reason,
            actor=who.key_id,
            came=origin.stamp(),
        )
        with self._in_flight.hold(ask.key):
            return await self._around.submit(ask)

    async def _ensure_issuer(self, tenant_id: int) -> None:
        if tenant_id not in self._issuers:
            key = key_of(tenant_id, ISSUER)
            async with self._database.write() as connection:
                made = await account_store.create(
                    connection, key, AccountTerms(floor=None, note="The issuer.")
                )
                if made is not None:
                    told = account_event(
                        key,
                        "account.created",
                        SYSTEM,
                        {"note": made.note},
                        self._database.unix_ms(),
                    )
                    await event_store.insert(connection, [told])
            self._issuers.add(tenant_id)

    async def _commit(self, asks: Sequence[AdjustmentAsk]) -> list[Answer]:
        unix_ms = self._database.unix_ms()
        return await commit(self._database, lambda c: _accept(c, asks, unix_ms))


async def _accept(
    connection: Connection, asks: Sequence[AdjustmentAsk], unix_ms: int
) -> list[Answer]:
    answers = await Answers.find(connection, asks)
    fresh = [ask for ask in asks if answers.fresh(ask)]
    await halt_store.refuse_held(connection, sorted({ask.account.tenant_id for ask in fresh}))
    keys = {key for ask in fresh for key in (ask.account, ask.issuer)}
    draft = Draft(await account_store.lock(connection, keys) if keys else {}, unix_ms)
    told = [
        answers.add(ask, draft.decide(ask)) if answers.fresh(ask) else answers.known(ask)
        for ask in asks
    ]
    await draft.write(connection)
    await answers.keep(connection)
    return told


class Draft:
    """The rows of a group of adjustments, filled item by item."""

    def __init__(self, accounts: dict[AccountKey, Account], unix_ms: int) -> None:
        self._accounts = accounts
        self._unix_ms = unix_ms
        self._touched: set[AccountKey] = set()
        self._entries: list[NewEntry] = []
        self._events: list[NewEvent] = []

    def decide(self, ask: AdjustmentAsk) -> Answer:
        """Accept or refuse one adjustment, seeing what those before it have moved."""
        issuer = self._accounts[ask.issuer]
        account = adjust(
            self._accounts.get(ask.account), issuer, ask.account.account_id, ask.amount
        )
        if isinstance(account, Refusal):
            return refused(account)
        transfer_id = new_id(account.bucket, self._unix_ms)
        self._touched |= {ask.account, ask.issuer}
        self._entries += [
            adjustment(account, transfer_id, ask.amount, ask.reason),
            adjustment(issuer, transfer_id, -ask.amount, ask.reason),
        ]
        body = Adjusted(
            transfer_id, account.account_id, ask.amount, account.balance, account.version
        )
        data: dict[str, Any] = msgspec.to_builtins(body) | {
            "reason": ask.reason,
            "idempotency_key": ask.key.key,
        }
        if ask.came is not None:
            data[STAMP] = ask.came
        self._events.append(
            account_event(ask.account, "account.adjusted", ask.actor, data, self._unix_ms)
        )
        return created(body, transfer_id)

    async def write(self, connection: Connection) -> None:
        """Write balances, entries and events."""
        await account_store.write(connection, [self._accounts[key] for key in self._touched])
        await entry_store.insert(connection, self._entries)
        await event_store.insert(connection, self._events)
