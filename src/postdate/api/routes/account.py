"""Accounts: create, read, limit, freeze, close, adjust; and their statements."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint, Reply, existing
from postdate.api.http.page import PageQuery, next_cursor
from postdate.api.idempotency import reply, run_once_per_key
from postdate.api.services import Services
from postdate.intake.account.account import AccountChange
from postdate.intake.account.adjustment import Adjusted
from postdate.model.error import Code, refuse
from postdate.model.payment.money import CURRENCY, MAX_AMOUNT
from postdate.model.payment.payment import AccountId, Instant
from postdate.model.tenant.identity import Scope
from postdate.views.account import MAX_VERSION, AccountView, EntryView, view

NOTE_CHARS: Final = 500
REASON_CHARS: Final = 500

Floor = Annotated[
    int,
    Meta(
        ge=-MAX_AMOUNT,
        le=MAX_AMOUNT,
        description="The least that must stay available; below 0 needs the scope ledger:adjust.",
    ),
]
MaxAmount = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
    Meta(
        description="The most for one payment from this account; null: the tenant's limit. "
        "It counts above that only as far as the setting `payment.account_max_amount` allows."
    ),
]
Currency = Annotated[
    Annotated[str, Meta(pattern=CURRENCY)] | None,
    Meta(
        description="What its amounts are counted in, in minor units: three capital letters, as in "
        "ISO 4217. It never changes, and payments are made only between accounts of one currency. "
        "Without it: the tenant's one currency."
    ),
]
Note = Annotated[Annotated[str, Meta(max_length=NOTE_CHARS)] | None, Meta(description="Yours.")]


class AccountBody(Body, kw_only=True):
    """A new account."""

    account_id: Annotated[AccountId | None, Meta(description="Yours, or one is assigned.")] = None
    floor: Floor = 0
    max_amount: MaxAmount = None
    note: Note = None
    currency: Currency = None


class AccountPatch(Body, kw_only=True):
    """What changes; an absent field stays as it is."""

    floor: Floor | UnsetType = UNSET
    max_amount: MaxAmount | UnsetType = UNSET
    note: Note | UnsetType = UNSET


class AdjustmentBody(Body, kw_only=True):
    """Money from the issuer, or back to it."""

    amount: Annotated[
        int,
        Meta(
            ge=-MAX_AMOUNT,
            le=MAX_AMOUNT,
            description="Positive credits the account, negative debits it; not 0.",
        ),
    ]
    reason: Annotated[
        str, Meta(min_length=1, max_length=REASON_CHARS, description="Why; kept with the entries.")
    ]


class StatementQuery(PageQuery, kw_only=True):
    """Which entries to list."""

    at: Annotated[
        Instant | None, Meta(description="Begin where the account stood at this instant.")
    ] = None


class AccountList(msgspec.Struct, frozen=True):
    """A page of accounts, by id."""

    accounts: list[AccountView]
    next_cursor: str | None


class StatementView(msgspec.Struct, frozen=True, kw_only=True):
    """The balance, now or at the requested instant, and the entries that led to it."""

    account_id: str
    balance: int
    version: int
    entries: list[EntryView]
    next_cursor: str | None


async def create_account(call: Call[Services, AccountBody, None]) -> Reply | msgspec.Struct:
    """Create an account."""
    actor, body, accounts = call.actor, call.body, call.services.account.change
    limits = AccountChange(floor=body.floor, max_amount=body.max_amount, note=body.note)
    return await run_once_per_key(
        call,
        "account",
        lambda remember: accounts.create(
            actor, body.account_id, limits, remember, currency=body.currency
        ),
        view,
    )


async def list_accounts(call: Call[Services, None, PageQuery]) -> AccountList:
    """Answer with a page of accounts."""
    after = call.query.start(str, "")
    found, following = await call.services.account.read.page(call.actor, after, call.query.limit)
    return AccountList(found, next_cursor(following))


async def get_account(call: Call[Services, None, None]) -> AccountView:
    """Answer with one account."""
    account_id = call.text("account_id")
    return existing(
        await call.services.account.read.get(call.actor, account_id), "account", account_id
    )


async def change_account(call: Call[Services, AccountPatch, None]) -> AccountView:
    """Change limits and note."""
    body = call.body
    wanted = AccountChange(floor=body.floor, max_amount=body.max_amount, note=body.note)
    account_id = call.text("account_id")
    return view(await call.services.account.change.change(call.actor, account_id, wanted))


async def freeze_account(call: Call[Services, None, None]) -> AccountView:
    """Freeze an account."""
    return view(await call.services.account.change.freeze(call.actor, call.text("account_id")))


async def unfreeze_account(call: Call[Services, None, None]) -> AccountView:
    """Unfreeze an account."""
    return view(await call.services.account.change.unfreeze(call.actor, call.text("account_id")))


async def close_account(call: Call[Services, None, None]) -> AccountView:
    """Close an empty account."""
    return view(await call.services.account.change.close(call.actor, call.text("account_id")))


async def list_account_entries(call: Call[Services, None, StatementQuery]) -> StatementView:
    """Answer with a statement."""
    account_id, query = call.text("account_id"), call.query
    version = query.start(int, MAX_VERSION)
    if not 0 < version <= MAX_VERSION:
        raise refuse(Code.INVALID_CURSOR, "Pass `next_cursor` back exactly as it came.", "cursor")
    found = existing(
        await call.services.account.read.statement(
            call.actor, account_id, query.at, version, query.limit
        ),
        "account",
        account_id,
    )
    following = found.next_version
    return StatementView(
        account_id=account_id,
        balance=found.balance,
        version=found.version,
        entries=found.entries,
        next_cursor=next_cursor(following),
    )


async def adjust_account(call: Call[Services, AdjustmentBody, None]) -> Reply:
    """Credit or debit an account against the issuer."""
    body = call.body
    if body.amount == 0:
        raise refuse(Code.INVALID_FIELD, "An adjustment of 0 moves nothing.", "amount")
    answer = await call.services.account.adjustment.adjust(
        call.actor,
        call.text("account_id"),
        body.amount,
        body.reason,
        call.idempotency_key or "",
    )
    return reply(answer, call.request_id)


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="POST",
        path="/accounts",
        idempotency="optional",
        handler=create_account,
        scope=Scope.PAYMENTS_WRITE,
        body=AccountBody,
        returns=AccountView,
        status=201,
        summary="Create an account",
        description="It begins empty; `POST /accounts/{account_id}/adjustments` puts money into "
        "it.",
        tag="accounts",
        errors=(
            Code.ACCOUNT_EXISTS,
            Code.ACCOUNT_RESERVED,
            Code.INSUFFICIENT_FUNDS,
            Code.QUOTA_EXCEEDED,
        ),
    ),
    Endpoint(
        method="GET",
        path="/accounts",
        handler=list_accounts,
        scope=Scope.PAYMENTS_READ,
        query=PageQuery,
        returns=AccountList,
        summary="List accounts by id",
        description="With balance, held and available as of now.",
        tag="accounts",
        errors=(Code.INVALID_CURSOR,),
    ),
    Endpoint(
        method="GET",
        path="/accounts/{account_id}",
        handler=get_account,
        scope=Scope.PAYMENTS_READ,
        returns=AccountView,
        summary="Show an account",
        description="`available` is what a new payment can use: the balance less what is held, "
        "above the floor.",
        tag="accounts",
    ),
    Endpoint(
        method="PATCH",
        path="/accounts/{account_id}",
        handler=change_account,
        scope=Scope.PAYMENTS_WRITE,
        body=AccountPatch,
        returns=AccountView,
        summary="Change the limits or the note of an account",
        description="What is absent stays as it is; payments that were accepted keep their terms.",
        tag="accounts",
        errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED, Code.INSUFFICIENT_FUNDS),
    ),
    Endpoint(
        method="POST",
        path="/accounts/{account_id}/freeze",
        handler=freeze_account,
        scope=Scope.PAYMENTS_WRITE,
        returns=AccountView,
        summary="Refuse every new payment from and to an account",
        description="Payments that come due while it is frozen fail with `account_frozen`.",
        tag="accounts",
        errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED),
    ),
    Endpoint(
        method="POST",
        path="/accounts/{account_id}/unfreeze",
        handler=unfreeze_account,
        scope=Scope.PAYMENTS_WRITE,
        returns=AccountView,
        summary="Allow payments from and to an account again",
        description="Payments that failed while it was frozen stay failed.",
        tag="accounts",
        errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED),
    ),
    Endpoint(
        method="DELETE",
        path="/accounts/{account_id}",
        handler=close_account,
        scope=Scope.PAYMENTS_WRITE,
        returns=AccountView,
        summary="Close an empty account for ever",
        description="Refused while it has money or open holds. Its history and its id stay. "
        "Payments to it that are still pending fail when they are due.",
        tag="accounts",
        errors=(Code.ACCOUNT_NOT_EMPTY, Code.ACCOUNT_RESERVED),
    ),
    Endpoint(
        method="GET",
        path="/accounts/{account_id}/entries",
        handler=list_account_entries,
        scope=Scope.PAYMENTS_READ,
        query=StatementQuery,
        returns=StatementView,
        summary="Show the statement of an account, the newest entry first",
        description="`at` shows the balance as it was at an instant; entries never change.",
        tag="accounts",
        errors=(Code.INVALID_CURSOR,),
    ),
    Endpoint(
        method="POST",
        path="/accounts/{account_id}/adjustments",
        handler=adjust_account,
        scope=Scope.LEDGER_ADJUST,
        body=AdjustmentBody,
        returns=Adjusted,
        status=201,
        summary="Credit or debit an account, with a reason",
        description="The counterpart is the tenant's `issuer` account, so that the ledger always "
        "sums to zero.",
        tag="accounts",
        errors=(
            Code.ACCOUNT_CLOSED,
            Code.ACCOUNT_RESERVED,
            Code.INSUFFICIENT_FUNDS,
            Code.BALANCE_ABOVE_LIMIT,
        ),
        idempotency="required",
    ),
]
