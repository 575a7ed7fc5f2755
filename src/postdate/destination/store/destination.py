"""Destinations by name, and the secrets that sign for a whole tenant."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.secret import secret
from postdate.secret.secret import Keyring
from postdate.words.signature import new_secret

SIGNING: Final = "signing_secret"
"""The place of a tenant's own secret, as bound into its envelope."""


class NewDestination(msgspec.Struct, frozen=True):
    """A destination about to be inserted; `config` and `secret` are envelopes."""

    tenant_id: int
    name: str
    type: str
    url: str | None
    kind: str | None
    config: bytes | None
    secret: bytes | None
    max_running: int | None = None
    rate_per_second: float | None = None


class DestinationRow(msgspec.Struct, frozen=True):
    """A destination as stored; the previous secret is there only while it still signs."""

    destination_id: int
    tenant_id: int
    name: str
    type: str
    url: str | None
    kind: str | None
    config: bytes | None
    secret: bytes | None
    previous_secret: bytes | None
    previous_until: datetime | None
    max_running: int | None
    rate_per_second: float | None
    disabled_at: datetime | None
    disabled_reason: str | None
    created_at: datetime
    changed_at: datetime


class Signing(msgspec.Struct, frozen=True):
    """A tenant's own secret, and the one before it while that still signs."""

    secret: bytes
    previous_secret: bytes | None = None
    previous_until: datetime | None = None


def secret_label(name: str) -> str:
    """Name the place of a destination's secrets, as bound into their envelopes."""
    return f"destination/{name}/secret"


def config_label(name: str) -> str:
    """Name the place of a queue's settings, as bound into their envelope."""
    return f"destination/{name}/config"


async def create(connection: Connection, new: NewDestination) -> DestinationRow | None:
    """Insert a destination; None when the name is taken."""
    return await fetch_one(
        connection, DestinationRow, "destination_create", *msgspec.structs.astuple(new)
    )


async def find(connection: Reader, tenant_id: int, name: str) -> DestinationRow | None:
    """Find a destination by name."""
    return await fetch_one(connection, DestinationRow, "destination_find", tenant_id, name)


async def page(connection: Reader, tenant_id: int, after: str, limit: int) -> list[DestinationRow]:
    """List destinations by name."""
    return await fetch_all(connection, DestinationRow, "destination_page", tenant_id, after, limit)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count a tenant's destinations."""
    return await connection.fetchval(query("destination_count"), tenant_id)


async def change(
    connection: Connection,
    tenant_id: int,
    name: str,
    *,
    url: str | UnsetType = UNSET,
    max_running: int | UnsetType | None = UNSET,
    rate_per_second: float | UnsetType | None = UNSET,
) -> DestinationRow | None:
    """Change address and limits; unset fields stay as they are."""
    given = [
        part
        for value in (url, max_running, rate_per_second)
        for part in (value is not UNSET, None if value is UNSET else value)
    ]
    return await fetch_one(
        connection, DestinationRow, "destination_change", tenant_id, name, *given
    )


async def rotate(
    connection: Connection, tenant_id: int, name: str, envelope: bytes, overlap_seconds: float
) -> DestinationRow | None:
    """Sign with a new secret, and with the current one until the overlap ends."""
    return await fetch_one(
        connection, DestinationRow, "destination_rotate", tenant_id, name, envelope, overlap_seconds
    )


async def disable(connection: Connection, tenant_id: int, name: str, reason: str) -> bool:
    """Disable deliveries; return False if they are disabled already, or there is no destination."""
    done = await connection.execute(query("destination_disable"), tenant_id, name, reason)
    return bool(done == "UPDATE 1")


async def enable(connection: Connection, tenant_id: int, name: str) -> bool:
    """Enable deliveries; return False when they are enabled already, or there is no destination."""
    done = await connection.execute(query("destination_enable"), tenant_id, name)
    return bool(done == "UPDATE 1")


async def delete(connection: Connection, tenant_id: int, name: str) -> bool:
    """Delete a destination."""
    done = await connection.execute(query("destination_delete"), tenant_id, name)
    return bool(done == "DELETE 1")


async def signing(connection: Connection, tenant_id: int) -> Signing | None:
    """Find a tenant's own secret."""
    return await fetch_one(connection, Signing, "destination_signing_find", tenant_id)


async def signing_ensure(connection: Connection, keyring: Keyring, tenant_id: int) -> Signing:
    """Return a tenant's own secret; create it when it is first needed."""
    found = await signing(connection, tenant_id)
    if found is not None:
        return found
    await secret.admit(connection, keyring)
    envelope = keyring.encrypt(tenant_id, SIGNING, new_secret().encode())
    await connection.execute(query("destination_signing_insert"), tenant_id, envelope)
    # Another transaction may have been first: the stored row is the secret.
    return await signing(connection, tenant_id) or Signing(envelope)


async def signing_rotate(
    connection: Connection, tenant_id: int, envelope: bytes, overlap_seconds: float
) -> datetime:
    """Sign with a new secret, and until the given instant with the present one too."""
    return await connection.fetchval(
        query("destination_signing_rotate"), tenant_id, envelope, overlap_seconds
    )
