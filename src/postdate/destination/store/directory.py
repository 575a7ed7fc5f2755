"""Destinations as handlers see them: cached, with secrets decrypted in memory only."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from postdate.core.limit import Limit
from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.destination.spec.destination import (
    Destination,
    DestinationType,
    Missing,
    Resolved,
    Unavailable,
)
from postdate.destination.store import destination
from postdate.destination.store.destination import (
    SIGNING,
    StoredDestination,
    config_label,
    secret_label,
)
from postdate.job.spec.outcome import Delivery
from postdate.secret.secret import Keyring, SecretError
from postdate.words.error import RefusedError
from postdate.words.signature import secret_bytes

log = Log()

REMEMBER_SECONDS: Final = 3.0
"""How long a destination is believed before it is looked up again: the bound on seeing a change."""

MAX_REMEMBERED: Final = 20_000

TenantDestination = tuple[int, str | None]


class DestinationDirectory:
    """Finds destinations by name; uses the last known values while the database is away."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring
        self._known: dict[TenantDestination, tuple[float, Resolved]] = {}
        self._asking: dict[TenantDestination, asyncio.Task[Resolved]] = {}

    async def resolve(self, tenant_id: int, name: str | None) -> Resolved:
        """Find a tenant's destination by name, or with None the tenant's default."""
        until, found = self._known.get((tenant_id, name), (0.0, None))
        if found is not None and time.monotonic() < until:
            return found
        return await self._ask((tenant_id, name))

    async def limits_of(self, delivery: Delivery) -> Sequence[Limit]:
        """Return what limits a delivery to a named destination."""
        name = delivery.destination.get("name")
        if name is None:
            return ()
        match await self.resolve(delivery.tenant_id, name):
            case Destination(limit=limit) if limit.limited:
                return (limit,)
            case _:
                return ()

    async def find(self, tenant_id: int, name: str) -> Resolved:
        """Find a destination without the cache, because it may be new."""
        found = await self.resolve(tenant_id, name)
        return await self._ask((tenant_id, name)) if isinstance(found, Missing) else found

    def forget(self, tenant_id: int, name: str | None) -> None:
        """Forget a destination, so that its next use looks it up again."""
        self._known.pop((tenant_id, name), None)

    async def _ask(self, key: TenantDestination) -> Resolved:
        """Look a destination up once for all callers; cancelling one does not affect others."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._look_up(key))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(asking)

    async def _look_up(self, key: TenantDestination) -> Resolved:
        tenant_id, name = key
        try:
            found = await (self._default(tenant_id) if name is None else self._named(*key))
        except (UnavailableError, CommitUnknownError) as error:
            log.debug("destination.not_read", error=str(error))
            _, last = self._known.get(key, (0.0, None))
            return last or Unavailable("the database is away")
        except (SecretError, RefusedError) as error:
            log.warning("destination.secret_closed", tenant_id=tenant_id, error=str(error))
            return Unavailable("its secret cannot be read by this node", elsewhere=True)
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[key] = (time.monotonic() + REMEMBER_SECONDS, found)
        return found

    async def _named(self, tenant_id: int, name: str | None) -> Resolved:
        async with self._database.connection() as connection:
            row = await destination.find_stored(connection, tenant_id, name or "")
        return Missing() if row is None else self._open(row)

    async def _default(self, tenant_id: int) -> Resolved:
        async with self._database.connection() as connection:
            found = await destination.signing(connection, tenant_id)
        if found is None:
            async with self._database.write() as connection:
                found = await destination.signing_ensure(connection, self._keyring, tenant_id)
        return Destination(
            tenant_id=tenant_id,
            name=None,
            type=DestinationType.WEBHOOK,
            limit=Limit(""),
            secrets=self._secrets(tenant_id, SIGNING, found.secret, found.previous_secret),
        )

    def _open(self, row: StoredDestination) -> Destination:
        config = None
        if row.config is not None:
            opened = self._keyring.decrypt(row.tenant_id, config_label(row.name), row.config)
            config = msgspec.json.decode(opened)
        return Destination(
            tenant_id=row.tenant_id,
            name=row.name,
            type=DestinationType(row.type),
            limit=Limit.of(f"destination:{row.destination_id}", row),
            url=row.url,
            kind=row.kind,
            config=config,
            secrets=self._secrets(
                row.tenant_id, secret_label(row.name), row.secret, row.previous_secret
            ),
            disabled=row.disabled_reason,
            paused=row.paused_reason,
            paused_seconds=row.paused_seconds or 0.0,
        )

    def _secrets(self, tenant_id: int, label: str, *envelopes: bytes | None) -> tuple[bytes, ...]:
        opened = (
            self._keyring.decrypt(tenant_id, label, envelope).decode()
            for envelope in envelopes
            if envelope is not None
        )
        return tuple(key for text in opened if (key := secret_bytes(text)) is not None)
