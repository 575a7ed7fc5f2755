"""Keys as they are asked for and shown."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from postdate.core.field import DAY_SECONDS, Created, Instant, OverlapSeconds
from postdate.core.identity import Scope
from postdate.core.money import MAX_AMOUNT
from postdate.core.shape import Spec, View
from postdate.payment.spec.payment import AccountId

MAX_ACCOUNTS: Final = 1000

KeyId = Annotated[
    UUID, Meta(description="The key's id.", examples=["0198c0de-5a4e-7abc-8def-0123456789ab"])
]
Scopes = Annotated[
    list[Scope],
    Meta(description="What the key may do.", examples=[["jobs:read", "jobs:write"]]),
]
KeyNote = Annotated[
    str, Meta(max_length=200, description="What it is for.", examples=["the shop's worker"])
]
KeyAccounts = Annotated[
    Annotated[list[AccountId], Meta(min_length=1, max_length=MAX_ACCOUNTS)] | None,
    Meta(description="Only these accounts; null means all.", examples=[["acc_alice"]]),
]
KeyMaxAmount = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
    Meta(description="The largest amount of a payment.", examples=[100_000]),
]
Ends = Annotated[
    datetime | None, Meta(description="When it ends.", examples=["2031-01-01T12:00:00Z"])
]
ShownOnce = Annotated[
    str | None, Meta(description="The key itself: shown this once.", examples=["pd_ab12…"])
]


class KeySpec(Spec, kw_only=True):
    """A new key; what is absent or null is no limit."""

    scopes: Annotated[Scopes, Meta(min_length=1, max_length=32)]
    note: KeyNote = ""
    accounts: KeyAccounts = None
    max_amount: KeyMaxAmount = None
    expires_at: Annotated[
        Instant | None, Meta(description="When it ends.", examples=["2031-01-01T12:00:00Z"])
    ] = None


class KeyRotateBody(Spec, kw_only=True):
    """How long the present key works beside the new one."""

    overlap_seconds: OverlapSeconds = DAY_SECONDS


class KeyView(View, frozen=True):
    """A key; `hint` is how it begins, null means no limit."""

    key_id: KeyId
    hint: Annotated[
        str,
        Meta(
            description="The first characters of the key, to tell keys apart.",
            examples=["pd_ab12"],
        ),
    ]
    note: KeyNote
    scopes: Scopes
    accounts: KeyAccounts
    max_amount: KeyMaxAmount
    created_at: Created
    expires_at: Ends
    revoked_at: Annotated[
        datetime | None,
        Meta(description="When the key was revoked.", examples=["2031-01-02T09:00:00Z"]),
    ]
    last_used_at: Annotated[
        datetime | None,
        Meta(
            description="When the key was last used, to the minute.",
            examples=["2031-01-01T09:00:00Z"],
        ),
    ]
    persons: Annotated[
        list[str],
        Meta(
            description="The people behind the key: none of them can approve its payments.",
            examples=[["0198c0de-5a4e-7abc-8def-0123456789ab"]],
        ),
    ]


class CreatedKey(View, frozen=True):
    """A key, shown only now: a repeated answer has null in its place."""

    key_id: KeyId
    key: ShownOnce
    scopes: Scopes
    expires_at: Ends


class RotatedKey(CreatedKey, frozen=True):
    """The new key, shown only now, and when the one before it ends."""

    previous_key_id: Annotated[
        UUID,
        Meta(
            description="The key that this one replaces.",
            examples=["0198c0de-5a4e-7abc-8def-0123456789ab"],
        ),
    ]
    previous_until: Annotated[
        datetime,
        Meta(description="Until when the key before is valid.", examples=["2031-01-02T09:00:00Z"]),
    ]
