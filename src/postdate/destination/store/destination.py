"""Destinations by name, and the secrets that sign for a whole tenant."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.destination.spec.destination import (
    DestinationSpec,
    DestinationStatus,
    DestinationType,
    DestinationView,
)
from postdate.secret import secret
from postdate.secret.secret import Keyring
from postdate.words.signature import new_secret

SIGNING: Final = "signing_secret"
"""The place of a tenant's own secret, as bound into its envelope."""


class StoredDestination(msgspec.Struct, frozen=True):
    """What a delivery needs of a destination; `config` and the secrets are envelopes.

    The previous secret is there only while it still signs.
    """

    destination_id: int
    tenant_id: int
    name: str
    type: str
    url: str | None
    kind: str | None
    config: bytes | None
    secret: bytes | None
    previous_secret: bytes | None
    max_running: int | None
    rate_per_second: float | None
    disabled_reason: str | None
    paused_reason: str | None
    paused_seconds: float | None


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


async def create(
    connection: Connection,
    tenant_id: int,
    spec: DestinationSpec,
    config: bytes | None,
    secret: bytes | None,
) -> bool:
    """Insert a destination with its envelopes; return False when the name is taken."""
    values = spec.name, spec.type.value, spec.url, spec.kind, spec.max_running, spec.rate_per_second
    done = await connection.execute(query("destination_create"), tenant_id, *values, config, secret)
    return bool(done == "INSERT 0 1")


async def find_stored(connection: Reader, tenant_id: int, name: str) -> StoredDestination | None:
    """Read a destination for a delivery."""
    return await fetch_one(connection, StoredDestination, "destination_open", tenant_id, name)


async def page(
    connection: Reader, tenant_id: int, after: str, limit: int, only: str | None = None
) -> list[DestinationView]:
    """List destinations by name, or only one of them."""
    return await fetch_all(connection, _view, "destination_page", tenant_id, after, limit, only)


async def find(connection: Reader, tenant_id: int, name: str) -> DestinationView | None:
    """Find a destination by name."""
    return next(iter(await page(connection, tenant_id, "", 1, name)), None)


def _view(name: str, kind: str, status: str, *others: Any) -> DestinationView:
    return DestinationView(name, DestinationType(kind), DestinationStatus(status), *others)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count a tenant's destinations."""
    return await connection.fetchval(query("destination_count"), tenant_id)


async def change(
    connection: Connection, tenant_id: int, name: str, given: Mapping[str, Any]
) -> None:
    """Change address and limits; fields that are not given stay as they are."""
    await connection.execute(query("destination_change"), tenant_id, name, given)


async def rotate(
    connection: Connection, tenant_id: int, name: str, envelope: bytes, overlap_seconds: float
) -> bool:
    """Sign with a new secret, and with the current one until the overlap ends."""
    done = await connection.execute(
        query("destination_rotate"), tenant_id, name, envelope, overlap_seconds
    )
    return bool(done == "UPDATE 1")


async def disable(connection: Connection, tenant_id: int, name: str, reason: str) -> bool:
    """Disable deliveries; return False if they are disabled already, or there is no destination."""
    done = await connection.execute(query("destination_disable"), tenant_id, name, reason)
    return bool(done == "UPDATE 1")


async def enable(connection: Connection, tenant_id: int, name: str) -> bool:
    """Enable deliveries; return False when they are enabled already, or there is no destination."""
    done = await connection.execute(query("destination_enable"), tenant_id, name)
    return bool(done == "UPDATE 1")


async def pause(connection: Connection, tenant_id: int, name: str, reason: str, actor: str) -> bool:
    """Pause deliveries; return False if this changes nothing, or there is no destination."""
    done = await connection.execute(query("destination_pause"), tenant_id, name, reason, actor)
    return bool(done == "UPDATE 1")


async def resume(connection: Connection, tenant_id: int, name: str) -> bool:
    """Resume deliveries; return False when they are not paused, or there is no destination."""
    done = await connection.execute(query("destination_resume"), tenant_id, name)
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
