"""`postdate account`: create, show, adjust, freeze and close accounts."""

import secrets
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import Json, show
from postdate.cli.remote import Limit, call, given, listed, one

account_app = cyclopts.App(name="account", help="Create, show, adjust, freeze and close accounts.")


@account_app.command(name="create")
def account_create(account_id: str | None = None, *, json: Json = False) -> None:
    """Create an account; without an id one is made up."""
    show(call("POST", "/accounts", given(account_id=account_id)), as_json=json)


@account_app.command(name="get")
def account_get(account_id: str, *, json: Json = False) -> None:
    """Show balance, held and available."""
    show(call("GET", one("/accounts", account_id)), as_json=json)


@account_app.command(name="list")
def account_list(*, limit: Limit = 20, json: Json = False) -> None:
    """List accounts."""
    listed("/accounts", "accounts", json=json, limit=limit)


@account_app.command(name="entries")
def account_entries(account_id: str, *, limit: Limit = 20, json: Json = False) -> None:
    """Show the statement, newest first."""
    path = one("/accounts", account_id, "entries")
    listed(path, "entries", json=json, limit=limit)


@account_app.command(name="adjust")
def account_adjust(
    account_id: str,
    amount: Annotated[int, Parameter(allow_leading_hyphen=True)],
    *,
    reason: str,
    idempotency_key: str | None = None,
    json: Json = False,
) -> None:
    """Credit (positive) or debit (negative) an account against the tenant's issuer."""
    path = one("/accounts", account_id, "adjustments")
    key = idempotency_key or secrets.token_urlsafe(16)
    body = {"amount": amount, "reason": reason}
    show(call("POST", path, body, idempotency_key=key), as_json=json)


@account_app.command(name="freeze")
def account_freeze(account_id: str, *, json: Json = False) -> None:
    """Let no money leave or reach an account."""
    show(call("POST", one("/accounts", account_id, "freeze")), as_json=json)


@account_app.command(name="unfreeze")
def account_unfreeze(account_id: str, *, json: Json = False) -> None:
    """Let an account go on."""
    show(call("POST", one("/accounts", account_id, "unfreeze")), as_json=json)


@account_app.command(name="close")
def account_close(account_id: str, *, json: Json = False) -> None:
    """Close an account that is empty, for ever."""
    call("DELETE", one("/accounts", account_id))
    show({"account_id": account_id, "closed": True}, as_json=json)
