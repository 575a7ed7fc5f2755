"""Accounts as they are asked for and shown: their terms; money is moved elsewhere."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from postdate.core.field import Created
from postdate.core.money import CURRENCY, MAX_AMOUNT, MINOR_UNIT
from postdate.core.shape import Spec, View
from postdate.payment.spec.payment import AccountId

NOTE_CHARS: Final = 500

ShownAccountId = Annotated[AccountId, Meta(description="The account's id.", examples=["acc_alice"])]
Floor = Annotated[
    int,
    Meta(
        ge=-MAX_AMOUNT,
        le=MAX_AMOUNT,
        description=f"The minimum that must stay available, {MINOR_UNIT}; below 0 needs the scope "
        "ledger:adjust.",
        examples=[0],
    ),
]
AccountMaxAmount = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
    Meta(
        description=f"The most for one payment from this account, {MINOR_UNIT}; null: the tenant's "
        "limit. It may exceed that limit as far as the setting `payment.account_max_amount` "
        "allows.",
        examples=[100_000],
    ),
]
Currency = Annotated[
    Annotated[str, Meta(pattern=CURRENCY)] | None,
    Meta(
        description="What its amounts are counted in: three capital letters, as in ISO 4217, which "
        "says how many digits of an amount stand behind the point. It never changes, and payments "
        "are made only between accounts of one currency. Without it: the tenant's one currency.",
        examples=["EUR"],
    ),
]
AccountNote = Annotated[
    Annotated[str, Meta(max_length=NOTE_CHARS)] | None,
    Meta(description="Yours.", examples=["ticket 812"]),
]
Balance = Annotated[
    int,
    Meta(
        description=f"The account's money, {MINOR_UNIT}; held amounts included.",
        examples=[10_000],
    ),
]
Ended = Annotated[datetime | None, Meta(examples=["2031-01-02T09:00:00Z"])]


class AccountSpec(Spec, kw_only=True):
    """A new account."""

    account_id: Annotated[
        AccountId | None,
        Meta(description="Your own id; if absent, one is assigned.", examples=["acc_alice"]),
    ] = None
    floor: Floor = 0
    max_amount: AccountMaxAmount = None
    note: AccountNote = None
    currency: Currency = None


class AccountView(View, frozen=True, omit_defaults=True):
    """An account: `available` is the balance minus holds, `version` counts its entries."""

    account_id: ShownAccountId
    balance: Balance
    held: Annotated[
        int, Meta(description=f"What open payments have reserved, {MINOR_UNIT}.", examples=[2500])
    ]
    available: Annotated[
        int,
        Meta(
            description=f"What can be spent now, {MINOR_UNIT}: balance less held, down to the "
            "floor.",
            examples=[7500],
        ),
    ]
    version: Annotated[int, Meta(description="Counts its changes.", examples=[3])]
    floor: Annotated[
        int | None,
        Meta(description=f"The least that must stay available, {MINOR_UNIT}.", examples=[0]),
    ]
    max_amount: AccountMaxAmount
    created_at: Created
    updated_at: Annotated[
        datetime,
        Meta(
            description="When its balance, held amount or terms last changed.",
            examples=["2031-01-01T09:00:00Z"],
        ),
    ]
    frozen_at: Annotated[Ended, Meta(description="When it was frozen; null while it is not.")] = (
        None
    )
    closed_at: Annotated[Ended, Meta(description="When it was closed for good.")] = None
    note: AccountNote = None
    currency: Currency = None
