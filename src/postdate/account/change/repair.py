"""Repair an account: one person requests it, another approves it, and the repair is recorded."""

from typing import Any, Final

import msgspec

from postdate.account.change.account import allow
from postdate.account.store import account as account_store
from postdate.account.store import repair as store
from postdate.account.store.account import Account, AccountKey, key_of
from postdate.account.store.repair import NewRepair
from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import account_subject, record_event
from postdate.ledger import repair as ledger
from postdate.ledger.repair import Repair
from postdate.words.error import Code, RefusedError, accepted, not_found, refuse

REQUEST_SECONDS: Final = 86400.0
"""How long a request waits for a second person."""


class Repairs:
    """Compares accounts with their entries, and repairs them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def look(self, actor: Identity, account_id: str) -> Repair:
        """Return what a repair would change; nothing is written."""
        async with self._database.write() as connection:
            return (await _decide(connection, actor, account_id))[1]

    async def request(self, actor: Identity, account_id: str, reason: str) -> Repair:
        """Request a repair, which another person must approve within a day."""
        async with self._database.write("account.repair_request") as connection:
            _, repair = await _decide(connection, actor, account_id)
            _refuse_needless(repair)
            data = _shown(repair) | {"reason": reason, "persons": sorted(actor.persons)}
            await self._record(connection, actor, account_id, "account.repair_requested", data)
        return repair

    async def approve(self, actor: Identity, account_id: str) -> Repair:
        """Make the repair that another person has requested, if nothing has changed since."""
        async with self._database.write("account.repair_approve") as connection:
            account, repair = await _decide(connection, actor, account_id)
            _refuse_needless(repair)
            key = key_of(actor.tenant_id, account_id)
            asked_by, asked = await _requested(connection, actor, key)
            if asked["difference"] != msgspec.to_builtins(repair.difference):
                detail = f"The account {account_id} differs otherwise than when it was asked for."
                raise refuse(Code.CONFLICT, detail)
            account.balance, account.held, account.version = (
                repair.after.balance,
                repair.after.held,
                repair.after.version,
            )
            await account_store.write(connection, [account])
            made = NewRepair(
                after=repair.after,
                before=repair.before,
                balance_jumps=repair.jumps,
                requested_by=asked_by,
                approved_by=actor.key_id,
                reason=asked["reason"],
            )
            await store.insert(connection, key, made)
            data = _shown(repair) | {"reason": made.reason, "requested_by": asked_by}
            await self._record(connection, actor, account_id, "account.repaired", data)
        return repair

    async def _record(
        self,
        connection: Connection,
        actor: Identity,
        account_id: str,
        kind: str,
        data: dict[str, Any],
    ) -> None:
        about, data = (
            account_subject(actor.tenant_id, account_id),
            {"account_id": account_id} | data,
        )
        await record_event(connection, about, kind, actor.key_id, data)


async def _decide(
    connection: Connection, actor: Identity, account_id: str
) -> tuple[Account, Repair]:
    """Lock an account and compare it with its entries; settlements wait meanwhile."""
    if not actor.allows(Scope.LEDGER_ADJUST):
        detail = f"Repairing an account needs the scope `{Scope.LEDGER_ADJUST}`."
        raise refuse(Code.FORBIDDEN, detail, scope=Scope.LEDGER_ADJUST)
    allow(actor, account_id)
    key = key_of(actor.tenant_id, account_id)
    account = (await account_store.lock(connection, [key])).get(key)
    if account is None:
        raise not_found("account", account_id)
    if lost := await store.lost_payment(connection, key):
        detail = f"The payment {lost} has lost its timer: cancel it or put it back first."
        raise refuse(Code.CONFLICT, detail)
    said = await store.read_evidence(connection, key)
    jumps = await store.jumps(connection, key)
    explained = await store.explained(connection, key)
    decided = accepted(ledger.decide(account, said, jumps, explained))
    refusal = ledger.check_terms(account, decided.after)
    if refusal is not None:
        raise RefusedError(refusal)
    return account, decided


async def _requested(
    connection: Connection, actor: Identity, key: AccountKey
) -> tuple[str, dict[str, Any]]:
    """Find the request; refuse one by the same person."""
    _, subject = account_subject(key.tenant_id, key.account_id)
    found = await store.requested(connection, key, subject, REQUEST_SECONDS)
    if found is None:
        raise refuse(
            Code.CONFLICT, f"Nobody has requested a repair of {key.account_id} since yesterday."
        )
    asked_by, data = found
    if asked_by == actor.key_id:
        raise refuse(Code.APPROVAL_BY_REQUESTER, "You cannot approve a repair you requested.")
    if not actor.persons.isdisjoint(data["persons"]):
        detail = "Your key and the requester's key belong to one person."
        raise refuse(Code.APPROVAL_BY_REQUESTER, detail)
    return asked_by, data


def _refuse_needless(repair: Repair) -> None:
    if not repair.is_needed:
        raise refuse(Code.CONFLICT, f"The account {repair.account_id} agrees with its entries.")


def _shown(repair: Repair) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(repair)
    return shown | {"difference": msgspec.to_builtins(repair.difference)}
