"""`postdate account`: create, show, adjust, freeze, repair and close accounts."""

import secrets
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from msgspec import UNSET

from postdate.account.change.repair import Repairs
from postdate.cli.choice import Nothing, WholeOrNone
from postdate.cli.database import with_database
from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import call, changed, item_path, limit_of, server, without_none
from postdate.database.connection.database import Database
from postdate.key.authentication.identity import Identities
from postdate.ledger.repair import Repair
from postdate.words.error import Code, refuse

account_app = cyclopts.App(name="account", help="Create, show, adjust, freeze and close accounts.")
accounts = Noun(account_app, "/accounts", "account_id")
accounts.get("Show balance, held and available.")
accounts.list_all("List accounts.")
accounts.list_of_one("entries", "Show the statement, newest first.")
accounts.act("freeze", "Freeze an account: refuse payments from and to it.")
accounts.act("unfreeze", "Unfreeze an account.")
accounts.delete("Close an empty account forever.", "close", "closed")


@account_app.command(name="create")
def account_create(
    account_id: str | None = None,
    *,
    floor: Annotated[int | None, Parameter(allow_leading_hyphen=True)] = None,
    max_amount: int | None = None,
    note: str | None = None,
    currency: Annotated[
        str | None, Parameter(help="Its currency, such as EUR or USD; it never changes.")
    ] = None,
) -> None:
    """Create an account; without an id, one is assigned."""
    body = without_none(
        account_id=account_id, floor=floor, max_amount=max_amount, note=note, currency=currency
    )
    show(call("POST", "/accounts", body))


@account_app.command(name="adjust")
def account_adjust(
    account_id: str,
    amount: Annotated[int, Parameter(allow_leading_hyphen=True)],
    *,
    reason: str,
    idempotency_key: str | None = None,
) -> None:
    """Credit (positive) or debit (negative) an account against the tenant's issuer."""
    path = item_path("/accounts", account_id, "adjustments")
    key = idempotency_key or secrets.token_urlsafe(16)
    body = {"amount": amount, "reason": reason}
    show(call("POST", path, body, idempotency_key=key))


@account_app.command(name="repair")
def account_repair(account_id: str, *, request: str | None = None, approve: bool = False) -> None:
    """Reset balance, held and version to what entries and open payments say.

    Without an option nothing is written. One person requests the repair, and another approves it
    with their own key (POSTDATE_API_KEY). Connects directly to the database.

    Parameters
    ----------
    account_id
        An account of the key's tenant.
    request
        Request the repair, with the reason.
    approve
        Approve the repair that another person has requested within the last day.

    """

    async def run(database: Database) -> Repair:
        actor = await Identities(database).authenticate(server()[1])
        if actor is None:
            raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
        repairs = Repairs(database)
        if approve:
            return await repairs.approve(actor, account_id)
        if request is not None:
            return await repairs.request(actor, account_id, request)
        return await repairs.look(actor, account_id)

    if approve and request is not None:
        raise refuse(Code.INVALID_FIELD, "Give either --request or --approve, not both.", "approve")
    found = with_database(run)
    done = "repaired" if approve else "requested" if request is not None else "dry run"
    answer = {
        "account_id": account_id,
        "done": done if found.is_needed else "nothing to repair",
        "before": found.before,
        "after": found.after,
        "difference": found.difference,
        "jumps": found.jumps,
    }
    show(answer)


@account_app.command(name="change")
def account_change(
    account_id: str,
    *,
    floor: Annotated[
        int | Nothing | None,
        Parameter(allow_leading_hyphen=True, help="Minimum available amount; none for no floor."),
    ] = None,
    max_amount: WholeOrNone = None,
    note: str | None = None,
) -> None:
    """Change the terms of an account; omitted options stay as they are."""
    body = changed(
        floor=limit_of(floor),
        max_amount=limit_of(max_amount),
        note=UNSET if note is None else note,
    )
    show(call("PATCH", item_path("/accounts", account_id), body))
