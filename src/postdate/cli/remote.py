"""Everyday commands that go through the HTTP API: job, payment, account, dead-letter."""

import secrets
import sys
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote

import cyclopts
import msgspec
from cyclopts import Parameter

from postdate.cli.first import KEY_FILE, read_key
from postdate.cli.operator import Json
from postdate.cli.output import progress, show
from postdate.cli.settings import load
from postdate.client import Client, ProblemError, UnreachableError
from postdate.model.errors import StartError

EXITS: Final = {401: 4, 403: 4, 404: 3, 409: 5}
"""0 done, 1 failed, 2 usage, 3 not found, 4 denied, 5 conflict; 6 partly, 7 findings."""

PARTLY: Final = 6

Limit = Annotated[int, Parameter(help="How many at most, up to 100.")]

job_app = cyclopts.App(name="job", help="Register, show, cancel and hasten jobs.")
payment_app = cyclopts.App(name="payment", help="Schedule, show and cancel payments.")
account_app = cyclopts.App(name="account", help="Create, show, adjust and freeze accounts.")
dead_letter_app = cyclopts.App(name="dead-letter", help="List and redrive what failed for good.")


def server() -> tuple[str, str]:
    """Give the address of the server that the settings name, and the key to call it with."""
    settings = load()
    key = settings.api_key or settings.admin_key or read_key(settings.data_dir / KEY_FILE)
    return settings.url or f"http://{settings.host}:{settings.port}", key or ""


def call(method: str, path: str, body: Any = None, **options: Any) -> Any:
    """Call the server that the settings name; a refusal ends the command with its exit code."""
    url, key = server()
    try:
        with Client(url, key) as client:
            return client.call(method, path, body, **options)
    except UnreachableError as error:
        raise StartError(f"{error}; is the server running? POSTDATE_URL names another") from error
    except ProblemError as error:
        _fail(error)


def _fail(error: ProblemError) -> NoReturn:
    place = f" ({error.field})" if error.field else ""
    print(f"postdate: {error}{place} [{error.code}]", file=sys.stderr)
    sys.exit(EXITS.get(error.status, 1))


def listed(path: str, noun: str, *, json: bool, **query: Any) -> None:
    """Print one page of a list."""
    show(call("GET", path, query=query).get(noun, []), as_json=json)


def parse(text: str | None) -> Any:
    """Read a JSON value from the command line."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise StartError(f"that is not JSON: {error}") from error


def given(**fields: Any) -> dict[str, Any]:
    """Keep the fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}


@job_app.command(name="create")
def job_create(
    *,
    url: str | None = None,
    lane: str | None = None,
    delay_seconds: float | None = None,
    payload: str | None = None,
    idempotency_key: str | None = None,
    json: Json = False,
) -> None:
    """Register a job: a webhook with --url, else work for pull workers of a lane.

    Parameters
    ----------
    url
        Where the webhook is called.
    lane
        The lane of the job.
    delay_seconds
        When it is due, from now.
    payload
        What is delivered, as JSON.
    idempotency_key
        Makes repeating the command harmless.
    json
        Print JSON.

    """
    destination = {"type": "webhook", "url": url} if url else {"type": "worker"}
    body = given(
        destination=destination, lane=lane, delay_seconds=delay_seconds, payload=parse(payload)
    )
    show(call("POST", "/jobs", body, idempotency_key=idempotency_key), as_json=json)


@job_app.command(name="get")
def job_get(job_id: str, *, json: Json = False) -> None:
    """Show a job."""
    show(call("GET", f"/jobs/{quote(job_id, safe='')}"), as_json=json)


@job_app.command(name="list")
def job_list(
    *, status: str | None = None, lane: str | None = None, limit: Limit = 20, json: Json = False
) -> None:
    """List jobs, newest first."""
    listed("/jobs", "jobs", json=json, status=status, lane=lane, limit=limit)


@job_app.command(name="attempts")
def job_attempts(job_id: str, *, json: Json = False) -> None:
    """List what was tried."""
    listed(f"/jobs/{quote(job_id, safe='')}/attempts", "attempts", json=json)


@job_app.command(name="cancel")
def job_cancel(job_id: str, *, json: Json = False) -> None:
    """Cancel a job."""
    show(call("POST", f"/jobs/{quote(job_id, safe='')}/cancel", {}), as_json=json)


@job_app.command(name="run-now")
def job_run_now(job_id: str, *, json: Json = False) -> None:
    """Make a pending job due now."""
    show(call("POST", f"/jobs/{quote(job_id, safe='')}/run-now", {}), as_json=json)


@payment_app.command(name="schedule")
def payment_schedule(
    from_account: str,
    to_account: str,
    amount: int,
    *,
    delay_seconds: int,
    idempotency_key: str | None = None,
    description: str | None = None,
    json: Json = False,
) -> None:
    """Schedule a payment; the amount is held at once.

    Parameters
    ----------
    from_account
        Who pays.
    to_account
        Who is paid.
    amount
        How much, in the smallest unit.
    delay_seconds
        When it is due, from now.
    idempotency_key
        Makes repeating the command harmless; one is made up if absent.
    description
        What it is for.
    json
        Print JSON.

    """
    body = given(
        from_account_id=from_account,
        to_account_id=to_account,
        amount=amount,
        delay_seconds=delay_seconds,
        description=description,
    )
    key = idempotency_key or secrets.token_urlsafe(16)
    show(call("POST", "/payments/schedule", body, idempotency_key=key), as_json=json)


@payment_app.command(name="get")
def payment_get(payment_id: str, *, json: Json = False) -> None:
    """Show a payment."""
    show(call("GET", f"/payments/{quote(payment_id, safe='')}"), as_json=json)


@payment_app.command(name="list")
def payment_list(
    *,
    account_id: str | None = None,
    status: str | None = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """List payments, newest first."""
    query = {"account_id": account_id, "status": status, "limit": limit}
    listed("/payments", "payments", json=json, **query)


@payment_app.command(name="cancel")
def payment_cancel(payment_id: str, *, json: Json = False) -> None:
    """Cancel a payment that is not yet settled; its hold is released."""
    show(call("DELETE", f"/payments/{quote(payment_id, safe='')}/cancel"), as_json=json)


@account_app.command(name="create")
def account_create(account_id: str | None = None, *, json: Json = False) -> None:
    """Create an account; without an id one is made up."""
    show(call("POST", "/accounts", given(account_id=account_id)), as_json=json)


@account_app.command(name="get")
def account_get(account_id: str, *, json: Json = False) -> None:
    """Show balance, held and available."""
    show(call("GET", f"/accounts/{quote(account_id, safe='')}"), as_json=json)


@account_app.command(name="list")
def account_list(*, limit: Limit = 20, json: Json = False) -> None:
    """List accounts."""
    listed("/accounts", "accounts", json=json, limit=limit)


@account_app.command(name="entries")
def account_entries(account_id: str, *, limit: Limit = 20, json: Json = False) -> None:
    """Show the statement, newest first."""
    path = f"/accounts/{quote(account_id, safe='')}/entries"
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
    path = f"/accounts/{quote(account_id, safe='')}/adjustments"
    key = idempotency_key or secrets.token_urlsafe(16)
    body = {"amount": amount, "reason": reason}
    show(call("POST", path, body, idempotency_key=key), as_json=json)


@dead_letter_app.command(name="list")
def dead_letter_list(*, limit: Limit = 20, json: Json = False) -> None:
    """List what failed for good."""
    listed("/dead-letters", "jobs", json=json, limit=limit)


@dead_letter_app.command(name="redrive")
def dead_letter_redrive(
    *job_ids: str,
    lane: str | None = None,
    per_second: float | None = None,
    json: Json = False,
) -> None:
    """Try failed jobs again, as new jobs that remember where they came from.

    Parameters
    ----------
    job_ids
        Which ones; without ids, all of a lane.
    lane
        Redrive everything of this lane, a thousand at a time.
    per_second
        Spread them, so that a destination that has just recovered is not overrun.
    json
        Print JSON.

    """
    if bool(job_ids) == (lane is not None):
        raise StartError("name the jobs, or give --lane")
    which = {"job_ids": list(job_ids)} if job_ids else {"filter": {"lane": lane}}
    done: list[Any] = []
    cursor: str | None = None
    with progress("redriving", None) as step:
        while True:
            body = given(**which, per_second=per_second, cursor=cursor)
            page = call("POST", "/dead-letters/redrive", body)
            done += page["outcomes"]
            step(f"{len(done)} jobs")
            cursor = page["next_cursor"]
            if cursor is None:
                break
    redriven = sum(one.get("code") is None for one in done)
    show({"redriven": redriven, "outcomes": done}, as_json=json)
    if redriven < len(done):
        sys.exit(PARTLY)
