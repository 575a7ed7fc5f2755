"""Accounts: create, read, limit, freeze, close, adjust; and their statements."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.account.change.account import AccountChange
from postdate.account.change.adjustment import Adjusted
from postdate.account.view import MAX_VERSION, AccountView, EntryView, view
from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.money import CURRENCY, MAX_AMOUNT
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import reply, run_once_per_key
from postdate.payment.spec.payment import AccountId, Instant
from postdate.words.error import Code, refuse

ROUTES: Final = Routes("accounts")

NOTE_CHARS: Final = 500
REASON_CHARS: Final = 500

Floor = Annotated[
    int,
    Meta(
        ge=-MAX_AMOUNT,
        le=MAX_AMOUNT,
        description="The minimum that must stay available; below 0 needs the scope ledger:adjust.",
    ),
]
MaxAmount = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
    Meta(
        description="The most for one payment from this account; null: the tenant's limit. "
        "It may exceed that limit as far as the setting `payment.account_max_amount` allows."
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

    account_id: Annotated[
        AccountId | None, Meta(description="Your own id; if absent, one is assigned.")
    ] = None
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
        str,
        Meta(
            min_length=1,
            max_length=REASON_CHARS,
            description="The reason; stored with the entries.",
        ),
    ]


class StatementQuery(PageQuery, kw_only=True):
    """Which entries to list."""

    at: Annotated[
        Instant | None, Meta(description="Begin with the newest entry at this instant.")
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


@ROUTES.add(
    "POST",
    "/accounts",
    Scope.PAYMENTS_WRITE,
    returns=AccountView,
    idempotency="optional",
    status=201,
    errors=(
        Code.ACCOUNT_EXISTS,
        Code.ACCOUNT_RESERVED,
        Code.INSUFFICIENT_FUNDS,
        Code.QUOTA_EXCEEDED,
    ),
    limited="filtered",
)
async def create_account(call: Call[Services, AccountBody, None]) -> Reply | msgspec.Struct:
    """Create an account.

    It starts empty; `POST /accounts/{account_id}/adjustments` adds money.
    """
    actor, body, accounts = call.actor, call.body, call.services.account.change
    limits = shaped(AccountChange, body)
    return await run_once_per_key(
        call,
        "account",
        lambda remember: accounts.create(
            actor, body.account_id, limits, remember, currency=body.currency
        ),
        view,
    )


@ROUTES.add("GET", "/accounts", Scope.PAYMENTS_READ, limited="filtered")
async def list_accounts(call: Call[Services, None, PageQuery]) -> AccountList:
    """List accounts by id.

    With their current balance, held and available amounts.
    """
    after = call.query.start(str, "")
    found, following = await call.services.account.read.page(call.actor, after, call.query.limit)
    return AccountList(found, next_cursor(following))


@ROUTES.add("GET", "/accounts/{account_id}", Scope.PAYMENTS_READ, limited="filtered")
async def get_account(call: Call[Services, None, None]) -> AccountView:
    """Show an account.

    `available` is what a new payment can use: the balance minus holds, above the floor.
    """
    account_id = call.text("account_id")
    return existing(
        await call.services.account.read.find(call.actor, account_id), "account", account_id
    )


@ROUTES.add(
    "PATCH",
    "/accounts/{account_id}",
    Scope.PAYMENTS_WRITE,
    errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED, Code.INSUFFICIENT_FUNDS),
    limited="filtered",
)
async def change_account(call: Call[Services, AccountPatch, None]) -> AccountView:
    """Change the limits or the note of an account.

    What is absent stays as it is; payments that were accepted keep their terms.
    """
    wanted = shaped(AccountChange, call.body)
    account_id = call.text("account_id")
    return view(await call.services.account.change.change(call.actor, account_id, wanted))


@ROUTES.add(
    "POST",
    "/accounts/{account_id}/freeze",
    Scope.PAYMENTS_WRITE,
    errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED),
    limited="filtered",
)
async def freeze_account(call: Call[Services, None, None]) -> AccountView:
    """Freeze an account: refuse every new payment from or to it.

    Payments that come due while it is frozen fail with `account_frozen`.
    """
    return view(await call.services.account.change.freeze(call.actor, call.text("account_id")))


@ROUTES.add(
    "POST",
    "/accounts/{account_id}/unfreeze",
    Scope.PAYMENTS_WRITE,
    errors=(Code.ACCOUNT_CLOSED, Code.ACCOUNT_RESERVED),
    limited="filtered",
)
async def unfreeze_account(call: Call[Services, None, None]) -> AccountView:
    """Unfreeze an account: allow payments from and to it again.

    Payments that failed while it was frozen stay failed.
    """
    return view(await call.services.account.change.unfreeze(call.actor, call.text("account_id")))


@ROUTES.add(
    "DELETE",
    "/accounts/{account_id}",
    Scope.PAYMENTS_WRITE,
    errors=(Code.ACCOUNT_NOT_EMPTY, Code.ACCOUNT_RESERVED),
    limited="filtered",
)
async def close_account(call: Call[Services, None, None]) -> AccountView:
    """Close an empty account forever.

    Refused while it has money or open holds. Its history and its id stay. Payments to it that are
    still pending fail when they are due.
    """
    return view(await call.services.account.change.close(call.actor, call.text("account_id")))


@ROUTES.add("GET", "/accounts/{account_id}/entries", Scope.PAYMENTS_READ, limited="filtered")
async def list_account_entries(call: Call[Services, None, StatementQuery]) -> StatementView:
    """Show the statement of an account, the newest entry first.

    `at` shows the balance as it was at an instant; entries never change.
    """
    account_id, query = call.text("account_id"), call.query
    version = query.start(int, MAX_VERSION)
    if not 0 < version <= MAX_VERSION:
        raise refuse(Code.INVALID_CURSOR, "Pass `next_cursor` back unchanged.", "cursor")
    found = existing(
        await call.services.account.read.statement(
            call.actor, account_id, query.at, version, query.limit
        ),
        "account",
        account_id,
    )
    return shaped(StatementView, found, next_cursor=next_cursor(found.next_version))


@ROUTES.add(
    "POST",
    "/accounts/{account_id}/adjustments",
    Scope.LEDGER_ADJUST,
    returns=Adjusted,
    status=201,
    errors=(
        Code.ACCOUNT_CLOSED,
        Code.ACCOUNT_RESERVED,
        Code.INSUFFICIENT_FUNDS,
        Code.BALANCE_ABOVE_LIMIT,
    ),
    idempotency="required",
    limited="filtered",
)
async def adjust_account(call: Call[Services, AdjustmentBody, None]) -> Reply:
    """Credit or debit an account, with a reason.

    The counterpart is the tenant's `issuer` account, so that the ledger always sums to zero.
    """
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
