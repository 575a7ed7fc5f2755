"""Create, change, rotate, disable and delete destinations."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core.identity import Identity
from postdate.core.setting.setting import Settings
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.destination.spec.destination import (
    CreatedDestination,
    DestinationDisableBody,
    DestinationPauseBody,
    DestinationResumeBody,
    DestinationSpec,
    DestinationType,
    DestinationView,
    RotateBody,
    SigningSecret,
)
from postdate.destination.spec.target import Networks, check_url
from postdate.destination.store import destination as store
from postdate.destination.store.destination import SIGNING, config_label, secret_label
from postdate.destination.view.destination import DESTINATION
from postdate.event.store.event import named, record_event
from postdate.intake.create_once import Remember, forget
from postdate.resource.change import A, Actor, Change, Changes, Given, Program
from postdate.secret import secret as secret_store
from postdate.secret.secret import Keyring, SecretError, SecretKeyMissingError
from postdate.words.error import Code, Refusal, RefusedError, not_found, refuse
from postdate.words.signature import new_secret, secret_bytes

CONFIG_BYTES: Final = 16 * 1024

CheckConfig = Callable[[Mapping[str, Any]], Awaitable[Refusal | None]]
"""Judge the settings of one kind of queue; each adapter brings its own."""

ReachQueue = Callable[[int, str, Mapping[str, Any]], Awaitable[str | None]]
"""Connect once to a tenant's queue of a kind; return the reason when that fails."""


class Destinations(Changes):
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
        reach: ReachQueue | None = None,
    ) -> None:
        super().__init__(database, settings)
        self._keyring = keyring
        self._allowed = allowed
        self._changed = changed
        self._queues = queues or {}
        self._reach = reach

    async def _check(self, actor: Identity, spec: DestinationSpec) -> None:
        if spec.secret is not None and secret_bytes(spec.secret) is None:
            detail = "A secret is `whsec_` followed by 24 to 64 bytes in base64."
            raise refuse(Code.INVALID_FIELD, detail, "secret")
        if spec.type is DestinationType.WEBHOOK:
            self._check_url(spec.type, spec.url)
            _check_absent(spec, "kind", "config")
        else:
            _check_absent(spec, "url", "secret")
            await self._check_queue(spec)
            await self._try_out(actor.tenant_id, spec)

    @DESTINATION.create(
        errors=(
            Code.TARGET_NOT_ALLOWED,
            Code.DESTINATION_UNREACHABLE,
            Code.SECRET_KEY_MISSING,
        ),
        shown_once=("secret",),
        hashed=("secret", "config"),
        check=_check,
    )
    async def create(self, change: Change[Identity], spec: DestinationSpec) -> CreatedDestination:
        """Create a destination; a webhook's secret is shown only now.

        A job or a subscription then names it instead of an address, and shares its limits.
        """
        secret = (spec.secret or new_secret()) if spec.type is DestinationType.WEBHOOK else None
        await secret_store.admit(change.connection, self._keyring)
        envelopes = self._envelopes(change.tenant_id, spec, secret)
        if not await store.create(change.connection, change.tenant_id, spec, *envelopes):
            raise refuse(Code.CONFLICT, f"There is a destination {spec.name} already.", "name")
        made = await self._changed_one(change, spec.name)
        return shaped(CreatedDestination, made, secret=secret)

    @DESTINATION.change(errors=(Code.TARGET_NOT_ALLOWED,))
    async def change(self, change: Change[Identity], name: str, given: Given) -> None:
        """Change the address and limits of a destination.

        Absent fields stay as they are; running calls are not affected.
        """
        found = await _found(change, name)
        if "url" in given:
            self._check_url(found.type, given["url"])
        await store.change(change.connection, change.tenant_id, name, given)
        await self._changed_one(change, name)

    @DESTINATION.delete()
    async def delete(self, change: Change[Identity], name: str) -> None:
        """Delete a destination; jobs that name it will fail.

        Its secret is deleted; the name can be reused.
        """
        found = await _found(change, name)
        if not await store.delete(change.connection, change.tenant_id, name):
            raise not_found("destination", name)
        await change.record(name, found)
        change.afterwards(lambda: self._changed(change.tenant_id, name))

    @DESTINATION.act(
        "rotate-secret",
        "rotated",
        name="rotate_destination_secret",
        once="destination.rotate",
        shown_once=("secret",),
        errors=(Code.SECRET_KEY_MISSING,),
    )
    async def rotate(self, change: Change[Identity], name: str, body: RotateBody) -> SigningSecret:
        """Rotate a destination's secret; both sign until the overlap ends.

        Receivers can change over while calls carry both signatures.
        """
        secret, tenant_id, seconds = new_secret(), change.tenant_id, body.overlap_seconds
        envelope = self._keyring.encrypt(tenant_id, secret_label(name), secret.encode())
        await secret_store.admit(change.connection, self._keyring)
        if not await store.rotate(change.connection, tenant_id, name, envelope, seconds):
            await _found(change, name)
            raise refuse(Code.CONFLICT, f"{name} is not a webhook, so it has no secret.")
        made = await self._changed_one(change, name)
        return SigningSecret(secret, made.previous_secret_until)

    @DESTINATION.act("disable", "disabled")
    async def disable_by(
        self, change: Change[Actor], name: str, body: DestinationDisableBody
    ) -> None:
        """Disable a destination: its jobs fail until it is enabled again.

        A receiver that answers 410 disables its destination in the same way.
        """
        if await store.disable(change.connection, change.tenant_id, name, body.reason):
            await self._changed_one(change, name)
        else:
            await _found(change, name)

    async def disable(self, tenant_id: int, name: str, reason: str, actor: str = SYSTEM) -> None:
        """Disable a destination on behalf of a receiver that answered 410."""
        body = DestinationDisableBody(reason=reason)
        await self.disable_by(Program(tenant_id, actor), name, body)

    @DESTINATION.act("enable", "enabled")
    async def enable(self, change: Change[Identity], name: str) -> None:
        """Enable a destination.

        Jobs that failed meanwhile are in the dead letters: redrive them there.
        """
        if await store.enable(change.connection, change.tenant_id, name):
            await self._changed_one(change, name)
        else:
            await _found(change, name)

    @DESTINATION.act("pause", "paused")
    async def pause(self, change: Change[Identity], name: str, body: DestinationPauseBody) -> None:
        """Pause a destination: its jobs and events wait, and no attempt is spent.

        Calls that run end normally. A job whose `expires_at` or `max_age_seconds` passes meanwhile
        fails, as in a paused lane.
        """
        key, reason, actor = (change.tenant_id, name), body.reason, change.actor.key_id
        if await store.pause(change.connection, *key, reason, actor):
            await self._changed_one(change, name)
        else:
            await _found(change, name)

    @DESTINATION.act("resume", "resumed")
    async def resume(
        self, change: Change[Identity], name: str, body: DestinationResumeBody
    ) -> None:
        """Resume a paused destination.

        What waited is sent within half a minute, within the destination's limits.
        """
        if await store.resume(change.connection, change.tenant_id, name):
            await self._changed_one(change, name, reason=body.reason)
        else:
            await _found(change, name)

    async def signing_secret(self, actor: Identity) -> SigningSecret:
        """Return the secret that signs jobs with a bare URL; the first call creates it."""
        async with self.database.write() as connection:
            found = await store.signing_ensure(connection, self._keyring, actor.tenant_id)
        try:
            opened = self._keyring.decrypt(actor.tenant_id, SIGNING, found.secret)
        except SecretKeyMissingError:
            raise
        except SecretError as error:
            raise refuse(Code.SECRET_KEY_MISSING, f"The secret is unreadable: {error}.") from error
        return SigningSecret(opened.decode(), found.previous_until)

    async def rotate_signing_secret(
        self, actor: Identity, overlap_seconds: float, remember: Remember[SigningSecret] = forget
    ) -> SigningSecret:
        """Rotate the tenant's signing secret; the current one signs too until the overlap ends."""
        secret = new_secret()
        envelope = self._keyring.encrypt(actor.tenant_id, SIGNING, secret.encode())
        async with self.database.write("destination.rotate_signing") as connection:
            await secret_store.admit(connection, self._keyring)
            await store.signing_ensure(connection, self._keyring, actor.tenant_id)
            until = await store.signing_rotate(
                connection, actor.tenant_id, envelope, overlap_seconds
            )
            about = named(actor.tenant_id, "destination", SIGNING)
            await record_event(connection, about, "destination.rotated", actor.key_id, {})
            rotated = SigningSecret(secret, until)
            await remember(connection, rotated)
        self._changed(actor.tenant_id, None)
        return rotated

    def _check_url(self, kind: DestinationType, url: str | None) -> None:
        if kind is not DestinationType.WEBHOOK:
            raise refuse(Code.INVALID_FIELD, "A queue has no `url`.", "url")
        if url is None:
            raise refuse(Code.INVALID_FIELD, "A webhook needs a `url`.", "url")
        if refusal := check_url(url, self._allowed):
            raise RefusedError(refusal)

    async def _check_queue(self, spec: DestinationSpec) -> None:
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
        if spec.force or self._reach is None:
            return
        if why := await self._reach(tenant_id, spec.kind or "", spec.config or {}):
            raise refuse(
                Code.DESTINATION_UNREACHABLE,
                f"The broker cannot be used: {why}. Send `force` to register it anyway.",
                "config",
            )

    def _envelopes(
        self, tenant_id: int, spec: DestinationSpec, secret: str | None
    ) -> tuple[bytes | None, bytes | None]:
        """Encrypt the settings of a queue and the secret of a webhook."""
        config, envelope = None, None
        if spec.config is not None:
            plain = msgspec.json.encode(spec.config)
            config = self._keyring.encrypt(tenant_id, config_label(spec.name), plain)
        if secret is not None:
            envelope = self._keyring.encrypt(tenant_id, secret_label(spec.name), secret.encode())
        return config, envelope

    async def _changed_one(
        self, change: Change[A], name: str, **more: str | None
    ) -> DestinationView:
        """Record what a destination is now; the node forgets what it knew after the commit."""
        found = await _found(change, name)
        shown = {each: getattr(found, each) for each in change.event_fields}
        await change.record(name, msgspec.to_builtins(shown | more))
        change.afterwards(lambda: self._changed(change.tenant_id, name))
        return found


async def _found(change: Change[A], name: str) -> DestinationView:
    found = await store.find(change.connection, change.tenant_id, name)
    if found is None:
        raise not_found("destination", name)
    return found


def _check_absent(spec: DestinationSpec, *names: str) -> None:
    """Refuse fields that the other type of destination has."""
    for name in names:
        if getattr(spec, name) is not None:
            detail = f"A {spec.type.value} has no `{name}`."
            raise refuse(Code.INVALID_FIELD, detail, name)
