"""Tenants and their keys."""

import re
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.audit.spec import CLI
from postdate.core.identity import Scope
from postdate.core.ids import BUCKETS, new_id
from postdate.core.instant import instant_text
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import named, record_event
from postdate.intake.create_once import Remember, forget
from postdate.key.store import key as key_store
from postdate.tenant.spec.tenant import TENANT_RULE
from postdate.tenant.store import tenant as tenant_store
from postdate.test_clock import store as test_clock
from postdate.words.error import Code, not_found, refuse

PREFIX: Final = "pdk_"
"""Makes a leaked key recognisable."""

KEY_BYTES: Final = 24
MAX_PERSONS: Final = 100
"""The most persons that one key may stand for; the table holds to it too."""

HINT_CHARACTERS: Final = 8
GIVEN_KEY_CHARACTERS: Final = 16
"""A key that an operator brings along has at least this many characters."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key: the only moment at which it is shown."""

    key_id: UUID
    tenant: str
    scopes: list[Scope]
    key: str
    expires_at: datetime | None = None


class TenantMode(NamedTuple):
    """Whether a new tenant is in test mode, and the initial time of its clock."""

    test: bool = False
    clock_at: datetime | None = None


LIVE: Final = TenantMode()


class KeyLimits(msgspec.Struct, frozen=True):
    """What narrows a key further than its scopes."""

    accounts: list[str] | None = None
    max_amount: int | None = None
    expires_at: datetime | None = None


def digest(key: str) -> bytes:
    """Hash a key; its random bits make a slow hash unnecessary."""
    return sha256(key.encode()).digest()


def parse_scopes(names: Sequence[str]) -> list[Scope]:
    """Read scope names, refusing the unknown by name."""
    known = {scope.value for scope in Scope}
    for name in names:
        if name not in known:
            raise refuse(
                Code.UNKNOWN_SCOPE, f"{name} is not one of {', '.join(sorted(known))}.", "scopes"
            )
    if not names:
        raise refuse(Code.INVALID_FIELD, "A key needs at least one scope.", "scopes")
    return sorted({Scope(name) for name in names})


class Tenants:
    """Create tenants, issue keys and end them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, actor: str = CLI, mode: TenantMode | None = None) -> int:
        """Create a tenant; a name that exists is refused."""
        _check_name(name)
        async with self._database.write() as connection:
            return await self._create(connection, name, actor, mode or LIVE)

    async def exists(self, name: str) -> bool:
        """Return whether there is a tenant of this name."""
        async with self._database.look_up() as connection:
            return await tenant_store.find(connection, name) is not None

    async def has_key(self, key: str) -> bool:
        """Return whether a key was issued before, however it has ended."""
        async with self._database.look_up() as connection:
            return await key_store.find_by_secret(connection, digest(key)) is not None

    async def open(
        self,
        name: str,
        actor: str,
        remember: Remember[IssuedKey] = forget,
        mode: TenantMode | None = None,
    ) -> IssuedKey:
        """Create a tenant together with its first key, which has the scope admin."""
        _check_name(name)
        async with self._database.write("tenant.open") as connection:
            tenant_id = await self._create(connection, name, actor, mode or LIVE)
            row, key = draft(self._database, tenant_id, [Scope.ADMIN], KeyLimits())
            row = msgspec.structs.replace(row, note="first key")
            await key_store.create(connection, row)
            await record_created(connection, row, actor)
            issued = IssuedKey(row.key_id, name, [Scope.ADMIN], key)
            await remember(connection, issued)
        return issued

    async def _create(self, connection: Connection, name: str, actor: str, mode: TenantMode) -> int:
        if mode.clock_at is not None and not mode.test:
            detail = "Only the clock of a tenant in test mode can be set."
            raise refuse(Code.INVALID_FIELD, detail, "clock_at")
        tenant_id = await tenant_store.create(connection, name, test=mode.test)
        if tenant_id is None:
            raise refuse(Code.CONFLICT, f"There is a tenant {name} already.", "name")
        data: dict[str, Any] = {"tenant": name}
        if mode.test:
            data["test"] = True
            await test_clock.create(connection, tenant_id, mode.clock_at)
        about = named(tenant_id, "tenant", name)
        await record_event(connection, about, "tenant.created", actor, data)
        return tenant_id

    async def issue(
        self,
        tenant: str,
        scopes: Sequence[str],
        *,
        note: str = "",
        limits: KeyLimits | None = None,
        given: str | None = None,
    ) -> IssuedKey:
        """Issue a key for a tenant, or store one that the operator provides."""
        wanted = parse_scopes(scopes)
        if given is not None and len(given) < GIVEN_KEY_CHARACTERS:
            raise refuse(
                Code.INVALID_FIELD, f"A key has at least {GIVEN_KEY_CHARACTERS} characters.", "key"
            )
        async with self._database.write() as connection:
            tenant_id = await _tenant(connection, tenant)
            row, key = draft(self._database, tenant_id, wanted, limits or KeyLimits(), given)
            row = msgspec.structs.replace(row, note=note)
            if await key_store.create(connection, row):
                await record_created(connection, row, CLI)
        return IssuedKey(row.key_id, tenant, wanted, key, row.expires_at)

    async def revoke(self, tenant: str, key_id: UUID) -> datetime:
        """Revoke a key; every node notices within five seconds."""
        async with self._database.write() as connection:
            tenant_id = await _tenant(connection, tenant)
            return await end_key(connection, tenant_id, key_id, CLI)

    async def rotate(self, tenant: str, key_id: UUID, overlap_seconds: float) -> IssuedKey:
        """Rotate a key: create its successor; the old key ends after the overlap."""
        async with self._database.write() as connection:
            tenant_id = await _tenant(connection, tenant)
            old = await key_store.find(connection, tenant_id, key_id)
            if old is None:
                raise not_found("key", key_id)
            row, key, _ = await replace_key(
                connection, self._database, tenant_id, (key_id, old), overlap_seconds, CLI
            )
        return IssuedKey(row.key_id, tenant, parse_scopes(row.scopes), key, row.expires_at)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise refuse(
            Code.INVALID_FIELD,
            TENANT_RULE,
            "name",
        )


def draft(
    database: Database,
    tenant_id: int,
    scopes: Sequence[Scope],
    limits: KeyLimits,
    given: str | None = None,
    persons: Collection[str] = (),
) -> tuple[key_store.NewKeyRow, str]:
    """Create a key and the row with its hash; without `persons` it counts as a separate person."""
    key = given or PREFIX + secrets.token_urlsafe(KEY_BYTES)
    key_id = new_id(tenant_id % BUCKETS, database.unix_ms())
    row = key_store.NewKeyRow(
        key_id=key_id,
        tenant_id=tenant_id,
        hash=digest(key),
        hint=key[: len(PREFIX) + HINT_CHARACTERS // 2],
        note="",
        scopes=[scope.value for scope in scopes],
        accounts=limits.accounts,
        max_amount=limits.max_amount,
        expires_at=limits.expires_at,
        persons=sorted(persons) or [str(key_id)],
    )
    return row, key


async def record_created(connection: Connection, row: key_store.NewKeyRow, actor: str) -> None:
    """Record the reach of a new key, never the key itself."""
    data = {
        "key_id": str(row.key_id),
        "note": row.note,
        "scopes": row.scopes,
        "accounts": row.accounts,
        "max_amount": row.max_amount,
        "expires_at": row.expires_at and instant_text(row.expires_at),
    }
    about = row.tenant_id, row.key_id
    await record_event(connection, about, "key.created", actor, data)


async def end_key(connection: Connection, tenant_id: int, key_id: UUID, actor: str) -> datetime:
    """Revoke a key now; revoking it twice changes nothing and records no event."""
    found = await key_store.revoke(connection, tenant_id, key_id)
    if found is None:
        raise not_found("key", key_id)
    at, is_new = found
    if is_new:
        data = {"key_id": str(key_id)}
        await record_event(connection, (tenant_id, key_id), "key.revoked", actor, data)
    return at


async def replace_key(
    connection: Connection,
    database: Database,
    tenant_id: int,
    old: tuple[UUID, key_store.StoredKey],
    overlap_seconds: float,
    actor: str,
    *,
    seen_by: Collection[str] = (),
) -> tuple[key_store.NewKeyRow, str, datetime]:
    """Create a key with the reach of the old one, which ends after the overlap.

    It counts as the persons of the old key, and as the persons who see it now.
    """
    key_id, reach = old
    if reach.ended:
        raise refuse(Code.CONFLICT, f"The key {key_id} has ended: create a new one.")
    limits = KeyLimits(reach.accounts, reach.max_amount, reach.expires_at)
    persons = {*reach.persons, *seen_by}
    if len(persons) > MAX_PERSONS:
        raise refuse(
            Code.CONFLICT, f"Too many people have rotated the key {key_id}: create a new one."
        )
    row, key = draft(database, tenant_id, parse_scopes(reach.scopes), limits, persons=persons)
    row = msgspec.structs.replace(row, note=reach.note)
    await key_store.create(connection, row)
    until = await key_store.end(connection, tenant_id, key_id, overlap_seconds)
    data = {"key_id": str(key_id), "new_key_id": str(row.key_id), "until": instant_text(until)}
    await record_event(connection, (tenant_id, key_id), "key.rotated", actor, data)
    await record_created(connection, row, actor)
    return row, key, until


async def _tenant(connection: Connection, name: str) -> int:
    tenant_id = await tenant_store.find(connection, name)
    if tenant_id is None:
        raise refuse(Code.UNKNOWN_TENANT, f"There is no tenant {name}.", "tenant")
    return tenant_id
