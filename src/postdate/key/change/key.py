"""Keys that create and revoke keys, never with a wider reach than their own."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from postdate.core.identity import Identity, Reach, Scope
from postdate.core.shape import shaped
from postdate.key.spec import CreatedKey, KeyRotateBody, KeySpec, RotatedKey
from postdate.key.store import key as key_store
from postdate.key.store.key import StoredKey
from postdate.key.view import KEY
from postdate.resource.change import Change, Changes
from postdate.tenant.change.tenant import (
    KeyLimits,
    draft,
    end_key,
    parse_scopes,
    record_created,
    replace_key,
)
from postdate.words.error import Code, RefusedError, not_found, refuse


class Keys(Changes):
    """Creates, rotates and revokes the keys of a tenant on behalf of one of them."""

    @KEY.create(shown_once=("key",))
    async def create(self, change: Change[Identity], spec: KeySpec) -> CreatedKey:
        """Create a key with at most the reach of yours; it is shown only now.

        Limit it further by scopes, expiry, accounts or a largest amount.
        """
        wanted, limits = parse_scopes(spec.scopes), shaped(KeyLimits, spec)
        await self._within(change, _reach(wanted, limits))
        row, key = draft(
            self.database, change.tenant_id, wanted, limits, persons=change.actor.persons
        )
        row = msgspec.structs.replace(row, note=spec.note)
        await key_store.create(change.connection, row)
        await record_created(change.connection, row, change.actor.key_id)
        return CreatedKey(row.key_id, key, wanted, row.expires_at)

    @KEY.delete("revoke_key", event="revoked", halted="served")
    async def revoke(self, change: Change[Identity], key_id: UUID) -> None:
        """Revoke a key; every node refuses it within five seconds.

        Requests in progress are finished. A revoked key cannot be restored.
        """
        old = await _found(change, key_id)
        # Its expiry does not matter: short-lived tokens may revoke keys, too.
        field = await self._excess_over_maker(change, _reach_of(old))
        if field not in {None, "expires_at"}:
            raise _too_far(field)
        await end_key(change.connection, change.tenant_id, key_id, change.actor.key_id)

    @KEY.act("rotate", "rotated", once="key.rotate", shown_once=("key",), halted="served")
    async def rotate(
        self, change: Change[Identity], key_id: UUID, body: KeyRotateBody
    ) -> RotatedKey:
        """Rotate a key: create its successor; the old key ends after the overlap.

        Both work during the overlap, so that clients can switch without a gap.
        """
        old = await _found(change, key_id)
        await self._within(change, _reach_of(old))
        await KEY.check_count(self, change)
        row, key, until = await replace_key(
            change.connection,
            self.database,
            change.tenant_id,
            (key_id, old),
            body.overlap_seconds,
            change.actor.key_id,
            seen_by=change.actor.persons,
        )
        scopes = parse_scopes(row.scopes)
        return RotatedKey(row.key_id, key, scopes, row.expires_at, key_id, until)

    async def _within(self, change: Change[Identity], wanted: Reach) -> None:
        field = await self._excess_over_maker(change, wanted)
        if field is not None:
            raise _too_far(field)

    async def _excess_over_maker(self, change: Change[Identity], wanted: Reach) -> str | None:
        """Compare with the creator's stored key, because a node's cache may be a moment old."""
        actor, reach = change.actor, change.actor.reach
        if actor.expires_at is None:
            own = await key_store.find(change.connection, actor.tenant_id, UUID(actor.key_id))
            if own is None or own.ended:
                raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
            reach = _reach_of(own)
        return wanted.first_excess(reach)


async def _found(change: Change[Identity], key_id: UUID) -> StoredKey:
    found = await key_store.find(change.connection, change.tenant_id, key_id)
    if found is None:
        raise not_found("key", key_id)
    return found


def _reach(scopes: Sequence[Scope], limits: KeyLimits) -> Reach:
    return Reach(
        scopes=frozenset(scopes),
        accounts=None if limits.accounts is None else frozenset(limits.accounts),
        max_amount=limits.max_amount,
        expires_at=limits.expires_at,
    )


def _reach_of(key: StoredKey) -> Reach:
    limits = KeyLimits(key.accounts, key.max_amount, key.expires_at)
    return _reach([Scope(scope) for scope in key.scopes], limits)


def _too_far(field: str) -> RefusedError:
    return refuse(Code.FORBIDDEN, f"Your own key has a narrower reach: see `{field}`.", field)
