"""Create, change, rotate, disable and delete destinations."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.audit.spec import SYSTEM
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.destination.spec.destination import NAME, DestinationType
from postdate.destination.spec.target import Networks, check_url
from postdate.destination.store import destination as destination_store
from postdate.destination.store.destination import (
    SIGNING,
    DestinationRow,
    NewDestination,
    config_label,
    secret_label,
)
from postdate.event.store.event import named, record_event
from postdate.intake.create_once import Remember, forget
from postdate.secret import secret as secret_store
from postdate.secret.secret import Keyring, SecretError, SecretKeyMissingError
from postdate.words.error import Code, Refusal, RefusedError, not_found, refuse
from postdate.words.signature import new_secret, secret_bytes

CONFIG_BYTES: Final = 16 * 1024

CheckConfig = Callable[[Mapping[str, Any]], Awaitable[Refusal | None]]
"""Judge the settings of one kind of queue; each adapter brings its own."""

Reach = Callable[[int, str, Mapping[str, Any]], Awaitable[str | None]]
"""Connect once to a tenant's queue of a kind; return the reason when that fails."""

MaxRunning = Annotated[int, Meta(ge=1, le=1_000_000)]
RatePerSecond = Annotated[float, Meta(ge=0.001, le=1_000_000)]


class DestinationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A destination as requested."""

    name: str
    type: DestinationType = DestinationType.WEBHOOK
    url: str | None = None
    kind: str | None = None
    config: dict[str, Any] | None = None
    secret: str | None = None
    max_running: int | None = None
    rate_per_second: float | None = None
    force: bool = False


class DestinationChange(msgspec.Struct, frozen=True, kw_only=True):
    """A new address or new limits; unset fields stay as they are."""

    url: str | UnsetType = UNSET
    max_running: int | UnsetType | None = UNSET
    rate_per_second: float | UnsetType | None = UNSET


class RotatedSecret(msgspec.Struct, frozen=True):
    """A new secret, and until when the one before it signs too."""

    secret: str
    previous_until: datetime | None


Created = tuple[DestinationRow, str | None]
"""A new destination, and a webhook's secret."""


class Destinations:
    """Changes destinations; every node applies a change within five seconds."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        settings: Settings,
        allowed: Networks,
        *,
        changed: Callable[[int, str | None], None] = lambda _tenant_id, _name: None,
        queues: Mapping[str, CheckConfig] | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._database = database
        self._keyring = keyring
        self._settings = settings
        self._allowed = allowed
        self._changed = changed
        self._queues = queues or {}
        self._reach = reach

    async def create(
        self, actor: Identity, spec: DestinationSpec, remember: Remember[Created] = forget
    ) -> Created:
        """Create a destination; a webhook's secret is returned only now."""
        await self._check(spec)
        await self._try_out(actor.tenant_id, spec)
        secret = (spec.secret or new_secret()) if spec.type is DestinationType.WEBHOOK else None
        max_destinations = self._settings.integer("destination.max_count", actor.tenant_id)
        async with self._database.write("destination.create") as connection:
            await secret_store.admit(connection, self._keyring)
            if await destination_store.count(connection, actor.tenant_id) >= max_destinations:
                raise refuse(
                    Code.CONFLICT, f"A tenant has at most {max_destinations} destinations."
                )
            row = await destination_store.create(connection, self._new(actor, spec, secret))
            if row is None:
                raise refuse(Code.CONFLICT, f"There is a destination {spec.name} already.", "name")
            await self._record(connection, actor.tenant_id, actor.key_id, row, "created")
            await remember(connection, (row, secret))
        self._changed(actor.tenant_id, spec.name)
        return row, secret

    async def change(self, actor: Identity, name: str, wanted: DestinationChange) -> DestinationRow:
        """Change address and limits."""
        async with self._database.write("destination.change") as connection:
            row = await destination_store.find(connection, actor.tenant_id, name)
            if row is None:
                raise not_found("destination", name)
            if wanted.url is not UNSET:
                self._check_url(DestinationType(row.type), wanted.url)
            row = await destination_store.change(
                connection, actor.tenant_id, name, **msgspec.structs.asdict(wanted)
            )
            if row is None:
                raise not_found("destination", name)
            await self._record(connection, actor.tenant_id, actor.key_id, row, "changed")
        self._changed(actor.tenant_id, name)
        return row

    async def rotate(
        self,
        actor: Identity,
        name: str,
        overlap_seconds: float,
        remember: Remember[RotatedSecret] = forget,
    ) -> RotatedSecret:
        """Rotate the secret of a webhook; the current one signs too until the overlap ends."""
        secret = new_secret()
        envelope = self._keyring.encrypt(actor.tenant_id, secret_label(name), secret.encode())
        async with self._database.write("destination.rotate") as connection:
            await secret_store.admit(connection, self._keyring)
            row = await destination_store.rotate(
                connection, actor.tenant_id, name, envelope, overlap_seconds
            )
            if row is None:
                if await destination_store.find(connection, actor.tenant_id, name):
                    raise refuse(Code.CONFLICT, f"{name} is not a webhook, so it has no secret.")
                raise not_found("destination", name)
            await self._record(connection, actor.tenant_id, actor.key_id, row, "rotated")
            rotated = RotatedSecret(secret, row.previous_until)
            await remember(connection, rotated)
        self._changed(actor.tenant_id, name)
        return rotated

    async def disable(self, tenant_id: int, name: str, reason: str, actor: str = SYSTEM) -> None:
        """Make its jobs fail until it is enabled again; disabling twice changes nothing."""
        async with self._database.write("destination.disable") as connection:
            done = await destination_store.disable(connection, tenant_id, name, reason)
            await self._switched(connection, tenant_id, name, actor, done, "disabled")
        self._changed(tenant_id, name)

    async def enable(self, actor: Identity, name: str) -> None:
        """Enable deliveries; enabling twice changes nothing."""
        async with self._database.write("destination.enable") as connection:
            done = await destination_store.enable(connection, actor.tenant_id, name)
            await self._switched(connection, actor.tenant_id, name, actor.key_id, done, "enabled")
        self._changed(actor.tenant_id, name)

    async def delete(self, actor: Identity, name: str) -> None:
        """Delete a destination; jobs that name it will fail."""
        async with self._database.write("destination.delete") as connection:
            row = await destination_store.find(connection, actor.tenant_id, name)
            if row is None or not await destination_store.delete(connection, actor.tenant_id, name):
                raise not_found("destination", name)
            await self._record(connection, actor.tenant_id, actor.key_id, row, "deleted")
        self._changed(actor.tenant_id, name)

    async def signing_secret(self, actor: Identity) -> RotatedSecret:
        """Return the secret that signs jobs with a bare URL; the first call creates it."""
        async with self._database.write() as connection:
            found = await destination_store.signing_ensure(
                connection, self._keyring, actor.tenant_id
            )
        try:
            opened = self._keyring.decrypt(actor.tenant_id, SIGNING, found.secret)
        except SecretKeyMissingError:
            raise
        except SecretError as error:
            raise refuse(Code.SECRET_KEY_MISSING, f"The secret is unreadable: {error}.") from error
        return RotatedSecret(opened.decode(), found.previous_until)

    async def rotate_signing_secret(
        self, actor: Identity, overlap_seconds: float, remember: Remember[RotatedSecret] = forget
    ) -> RotatedSecret:
        """Rotate the tenant's signing secret; the current one signs too until the overlap ends."""
        secret = new_secret()
        envelope = self._keyring.encrypt(actor.tenant_id, SIGNING, secret.encode())
        async with self._database.write("destination.rotate_signing") as connection:
            await secret_store.admit(connection, self._keyring)
            await destination_store.signing_ensure(connection, self._keyring, actor.tenant_id)
            until = await destination_store.signing_rotate(
                connection, actor.tenant_id, envelope, overlap_seconds
            )
            about = named(actor.tenant_id, "destination", SIGNING)
            await record_event(connection, about, "destination.rotated", actor.key_id, {})
            rotated = RotatedSecret(secret, until)
            await remember(connection, rotated)
        self._changed(actor.tenant_id, None)
        return rotated

    async def _check(self, spec: DestinationSpec) -> None:
        if not NAME.fullmatch(spec.name):
            raise refuse(
                Code.INVALID_FIELD,
                "A name has 1 to 63 of A-Z a-z 0-9 _ . : - and begins with a letter or digit.",
                "name",
            )
        if spec.secret is not None and secret_bytes(spec.secret) is None:
            raise refuse(
                Code.INVALID_FIELD,
                "A secret is `whsec_` followed by 24 to 64 bytes in base64.",
                "secret",
            )
        if spec.type is DestinationType.WEBHOOK:
            self._check_url(spec.type, spec.url)
            if spec.kind is not None or spec.config is not None:
                raise refuse(Code.INVALID_FIELD, "A webhook takes no config.", "config")
        else:
            await self._check_queue(spec)

    def _check_url(self, kind: DestinationType, url: str | None) -> None:
        if kind is not DestinationType.WEBHOOK or url is None:
            raise refuse(Code.INVALID_FIELD, "A webhook has a URL, a queue has none.", "url")
        if refusal := check_url(url, self._allowed):
            raise RefusedError(refusal)

    async def _check_queue(self, spec: DestinationSpec) -> None:
        if spec.url is not None or spec.secret is not None:
            raise refuse(Code.INVALID_FIELD, "A queue needs a config.", "config")
        check = self._queues.get(spec.kind or "")
        if check is None:
            known = ", ".join(sorted(self._queues)) or "none on this server"
            raise refuse(Code.INVALID_FIELD, f"`kind` must be one of: {known}.", "kind")
        if len(msgspec.json.encode(spec.config)) > CONFIG_BYTES:
            raise refuse(
                Code.INVALID_FIELD, f"A config has at most {CONFIG_BYTES} bytes.", "config"
            )
        if refusal := await check(spec.config or {}):
            raise RefusedError(refusal)

    async def _try_out(self, tenant_id: int, spec: DestinationSpec) -> None:
        if spec.type is not DestinationType.QUEUE or spec.force or self._reach is None:
            return
        if why := await self._reach(tenant_id, spec.kind or "", spec.config or {}):
            raise refuse(
                Code.DESTINATION_UNREACHABLE,
                f"The broker cannot be used: {why}. Send `force` to register it anyway.",
                "config",
            )

    def _new(self, actor: Identity, spec: DestinationSpec, secret: str | None) -> NewDestination:
        config = None
        if spec.config is not None:
            config = self._keyring.encrypt(
                actor.tenant_id, config_label(spec.name), msgspec.json.encode(spec.config)
            )
        envelope = secret and self._keyring.encrypt(
            actor.tenant_id, secret_label(spec.name), secret.encode()
        )
        return NewDestination(
            actor.tenant_id,
            spec.name,
            spec.type.value,
            spec.url,
            spec.kind,
            config,
            envelope or None,
            spec.max_running,
            spec.rate_per_second,
        )

    async def _switched(
        self,
        connection: Connection,
        tenant_id: int,
        name: str,
        actor: str,
        done: bool,  # noqa: FBT001 - the row that changed, or not
        verb: str,
    ) -> None:
        row = await destination_store.find(connection, tenant_id, name)
        if row is None:
            raise not_found("destination", name)
        if done:
            await self._record(connection, tenant_id, actor, row, verb)

    async def _record(
        self, connection: Connection, tenant_id: int, actor: str, row: DestinationRow, verb: str
    ) -> None:
        data = {
            "name": row.name,
            "type": row.type,
            "url": row.url,
            "max_running": row.max_running,
            "rate_per_second": row.rate_per_second,
            "disabled_reason": row.disabled_reason,
        }
        about = named(tenant_id, "destination", row.name)
        await record_event(connection, about, f"destination.{verb}", actor, data)
