"""Keys that create and revoke keys, never with a wider reach than their own."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.core.identity import Identity, Reach, Scope
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.intake.create_once import Remember, forget
from postdate.key.store import key as key_store
from postdate.key.store.key import StoredKey
from postdate.tenant.change.tenant import (
    IssuedKey,
    KeyLimits,
    draft,
    end_key,
    parse_scopes,
    record_created,
    replace_key,
)
from postdate.words.error import Code, RefusedError, not_found, refuse


class RotatedTenantKey(msgspec.Struct, frozen=True):
    """The new key, shown once, and when the one before it ends."""

    issued: IssuedKey
    previous_until: datetime


class Keys:
    """Creates, rotates and revokes the keys of a tenant on behalf of one of them."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    async def create(
        self,
        actor: Identity,
        scopes: Sequence[str],
        note: str,
        limits: KeyLimits,
        remember: Remember[IssuedKey] = forget,
    ) -> IssuedKey:
        """Create a key; a limited key can create only keys that are at least as limited."""
        wanted = parse_scopes(scopes)
        row, key = draft(self._database, actor.tenant_id, wanted, limits, persons=actor.persons)
        row = msgspec.structs.replace(row, note=note)
        async with self._database.write("key.create") as connection:
            await self._within(connection, actor, _reach(wanted, limits))
            await self._check_quota(connection, actor)
            await key_store.create(connection, row)
            await record_created(connection, row, actor.key_id)
            issued = IssuedKey(row.key_id, actor.tenant, wanted, key, row.expires_at)
            await remember(connection, issued)
        return issued

    async def rotate(
        self,
        actor: Identity,
        key_id: UUID,
        overlap_seconds: float,
        remember: Remember[RotatedTenantKey] = forget,
    ) -> RotatedTenantKey:
        """Rotate a key: create its successor; the old key ends after the overlap."""
        async with self._database.write("key.rotate") as connection:
            old = await key_store.find(connection, actor.tenant_id, key_id)
            if old is None:
                raise not_found("key", key_id)
            await self._within(connection, actor, _reach_of(old))
            await self._check_quota(connection, actor)
            row, key, until = await replace_key(
                connection,
                self._database,
                actor.tenant_id,
                (key_id, old),
                overlap_seconds,
                actor.key_id,
                seen_by=actor.persons,
            )
            scopes = parse_scopes(row.scopes)
            issued = IssuedKey(row.key_id, actor.tenant, scopes, key, row.expires_at)
            rotated = RotatedTenantKey(issued, until)
            await remember(connection, rotated)
        return rotated

    async def revoke(self, actor: Identity, key_id: UUID) -> datetime:
        """Revoke a key; every node notices within five seconds."""
        async with self._database.write("key.revoke") as connection:
            old = await key_store.find(connection, actor.tenant_id, key_id)
            if old is None:
                raise not_found("key", key_id)
            # Its expiry does not matter: short-lived tokens may revoke keys, too.
            field = await self._excess_over_maker(connection, actor, _reach_of(old))
            if field not in {None, "expires_at"}:
                raise _too_far(field)
            return await end_key(connection, actor.tenant_id, key_id, actor.key_id)

    async def _within(self, connection: Connection, actor: Identity, wanted: Reach) -> None:
        field = await self._excess_over_maker(connection, actor, wanted)
        if field is not None:
            raise _too_far(field)

    async def _excess_over_maker(
        self, connection: Connection, actor: Identity, wanted: Reach
    ) -> str | None:
        """Compare with the creator's stored key, because a node's cache may be a moment old."""
        reach = actor.reach
        if actor.expires_at is None:
            own = await key_store.find(connection, actor.tenant_id, UUID(actor.key_id))
            if own is None or own.ended:
                raise refuse(Code.UNAUTHENTICATED, "The key is not valid.")
            reach = _reach_of(own)
        return wanted.first_excess(reach)

    async def _check_quota(self, connection: Connection, actor: Identity) -> None:
        max_keys = self._settings.integer("key.max_count", actor.tenant_id)
        if await key_store.count(connection, actor.tenant_id) >= max_keys:
            raise refuse(Code.CONFLICT, f"A tenant has at most {max_keys} keys; revoke some.")


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
