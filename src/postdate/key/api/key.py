"""Keys: create, list, rotate, revoke."""

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.money import MAX_AMOUNT
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.key.view import KeyView
from postdate.payment.spec.payment import AccountId, Instant
from postdate.tenant.change.tenant import KeyLimits

ROUTES: Final = Routes("keys")

FIRST: Final = UUID(int=0)
DAY_SECONDS: Final = 24 * 3600
MAX_ACCOUNTS: Final = 1000


class KeyBody(Body, kw_only=True):
    """A new key; what is absent or null is no limit."""

    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=32)]
    note: Annotated[str, Meta(max_length=200, description="What it is for.")] = ""
    accounts: Annotated[
        Annotated[list[AccountId], Meta(min_length=1, max_length=MAX_ACCOUNTS)] | None,
        Meta(description="Only these accounts."),
    ] = None
    max_amount: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
        Meta(description="The largest amount of a payment."),
    ] = None
    expires_at: Annotated[Instant | None, Meta(description="When it ends.")] = None


class KeyRotateBody(Body, kw_only=True):
    """How long the present key works beside the new one."""

    overlap_seconds: Annotated[float, Meta(ge=0, le=30 * DAY_SECONDS)] = DAY_SECONDS


class CreatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key, shown only now: a repeated answer has null in its place."""

    key_id: UUID
    key: str | None
    scopes: list[Scope]
    expires_at: datetime | None


class RotatedKey(CreatedKey, frozen=True, kw_only=True):
    """The new key, shown only now, and when the one before it ends."""

    previous_key_id: UUID
    previous_until: datetime


class KeyList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of keys, the oldest first."""

    keys: list[KeyView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/keys",
    Scope.ADMIN,
    returns=CreatedKey,
    idempotency="optional",
    status=201,
    limited="filtered",
)
async def create_key(call: Call[Services, KeyBody, None]) -> Reply | msgspec.Struct:
    """Create a key with at most the reach of yours; it is shown only now.

    Limit it further by scopes, expiry, accounts or a largest amount.
    """
    actor, body, keys = call.actor, call.body, call.services.key.change
    limits = shaped(KeyLimits, body)
    return await run_once_per_key(
        call,
        "key",
        lambda remember: keys.create(actor, body.scopes, body.note, limits, remember),
        lambda issued: shaped(CreatedKey, issued),
        hide=_without_key,
    )


@ROUTES.add("GET", "/keys", Scope.ADMIN, limited="filtered")
async def list_keys(call: Call[Services, None, PageQuery]) -> KeyList:
    """List the keys.

    A key is shown by its first characters only. A key limited to accounts sees keys that are
    limited to the same accounts or fewer.
    """
    after = call.query.start(UUID, FIRST)
    keys, following = await call.services.key.read.page(call.actor, after, call.query.limit)
    return KeyList(keys=keys, next_cursor=next_cursor(following))


@ROUTES.add("DELETE", "/keys/{key_id:uuid}", Scope.ADMIN, halted="served", limited="filtered")
async def revoke_key(call: Call[Services, None, None]) -> Reply:
    """Revoke a key; every node refuses it within five seconds.

    Requests in progress are finished. A revoked key cannot be restored.
    """
    await call.services.key.change.revoke(call.actor, call.uuid("key_id"))
    return Reply()


@ROUTES.add(
    "POST",
    "/keys/{key_id:uuid}/rotate",
    Scope.ADMIN,
    returns=RotatedKey,
    idempotency="optional",
    halted="served",
    limited="filtered",
)
async def rotate_key(call: Call[Services, KeyRotateBody, None]) -> Reply | msgspec.Struct:
    """Rotate a key: create its successor; the old key ends after the overlap.

    Both work during the overlap, so that clients can switch without a gap.
    """
    actor, key_id, keys = call.actor, call.uuid("key_id"), call.services.key.change
    overlap_seconds = call.body.overlap_seconds
    return await run_once_per_key(
        call,
        "key.rotate",
        lambda remember: keys.rotate(actor, key_id, overlap_seconds, remember),
        lambda done: shaped(
            RotatedKey, done.issued, previous_key_id=key_id, previous_until=done.previous_until
        ),
        status=200,
        hide=_without_key,
    )


def _without_key(shown: msgspec.Struct) -> msgspec.Struct:
    return msgspec.structs.replace(shown, key=None)
