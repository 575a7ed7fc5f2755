"""Create, pause, resume, replay and delete subscriptions."""

import random
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.core.identity import Identity
from postdate.core.ids import BUCKETS, MIN_ID, new_id
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.destination.spec.target import Networks
from postdate.event.spec.event import check_patterns, like_patterns
from postdate.event.store import seal
from postdate.event.store.event import record_event
from postdate.intake.create_once import Remember, forget
from postdate.job.accept.intake import CheckNames
from postdate.job.accept.validation import check_destination
from postdate.job.spec.job import Queue, Webhook
from postdate.subscription import store as subscription_store
from postdate.subscription.store import NewSubscription, SubscriptionRow
from postdate.words.error import Code, RefusedError, not_found, refuse

MAX_ACCOUNTS: Final = 100
EVERYTHING: Final = ["*"]


class SubscriptionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as requested; `position` is where to begin, None means at the end."""

    destination: Webhook | Queue
    types: list[str]
    accounts: list[str] | None = None
    position: int | None = None


class Subscriptions:
    """Changes subscriptions; calls `started` when one may have something to deliver."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        allowed: Networks,
        check_names: CheckNames,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._allowed = allowed
        self._check_names = check_names
        self._started = started

    async def create(
        self, actor: Identity, spec: SubscriptionSpec, remember: Remember[SubscriptionRow] = forget
    ) -> SubscriptionRow:
        """Create a subscription and begin to deliver."""
        types = check_patterns(spec.types) or EVERYTHING
        accounts = _accounts(actor, spec.accounts)
        await self._check(actor.tenant_id, spec.destination)
        max_count = self._settings.integer("event.max_subscriptions", actor.tenant_id)
        subscription_id = new_id(random.randrange(BUCKETS), self._database.unix_ms())
        async with self._database.write("subscription.create") as connection:
            if await subscription_store.count(connection, actor.tenant_id) >= max_count:
                raise refuse(Code.CONFLICT, f"A tenant has at most {max_count} subscriptions.")
            new = NewSubscription(
                tenant_id=actor.tenant_id,
                subscription_id=subscription_id,
                destination=msgspec.to_builtins(spec.destination),
                types=types,
                patterns=like_patterns(types),
                accounts=accounts,
                position=await _position(connection, actor.tenant_id, spec.position),
            )
            await subscription_store.insert(connection, new)
            await subscription_store.start(connection, actor.tenant_id, subscription_id)
            await self._record(connection, actor, subscription_id, "created", {"types": types})
            row = await _found(connection, actor.tenant_id, subscription_id)
            await remember(connection, row)
        self._started()
        return row

    async def delete(self, actor: Identity, subscription_id: UUID) -> None:
        """Delete a subscription."""
        async with self._database.write("subscription.delete") as connection:
            await _check_reach(connection, actor, subscription_id)
            if not await subscription_store.delete(connection, actor.tenant_id, subscription_id):
                raise not_found("subscription", subscription_id)
            await subscription_store.stop(connection, subscription_id)
            await self._record(connection, actor, subscription_id, "deleted")

    async def pause(self, actor: Identity, subscription_id: UUID, note: str) -> None:
        """Pause a subscription; pausing twice changes nothing."""
        async with self._database.write("subscription.pause") as connection:
            await _check_reach(connection, actor, subscription_id)
            if await subscription_store.pause(connection, actor.tenant_id, subscription_id, note):
                await subscription_store.stop(connection, subscription_id)
                await self._record(connection, actor, subscription_id, "paused", {"note": note})

    async def resume(self, actor: Identity, subscription_id: UUID) -> None:
        """Resume a subscription where it was paused; resuming twice changes nothing."""
        async with self._database.write("subscription.resume") as connection:
            await _check_reach(connection, actor, subscription_id)
            if await subscription_store.resume(connection, actor.tenant_id, subscription_id):
                await subscription_store.start(connection, actor.tenant_id, subscription_id)
                await self._record(connection, actor, subscription_id, "resumed")
        self._started()

    async def replay(
        self,
        actor: Identity,
        subscription_id: UUID,
        position: int | None,
        remember: Remember[SubscriptionRow] = forget,
    ) -> SubscriptionRow:
        """Move a subscription to another position: back to repeat events, forward to skip some."""
        async with self._database.write("subscription.replay") as connection:
            await _check_reach(connection, actor, subscription_id)
            position = await _position(connection, actor.tenant_id, position)
            running = await subscription_store.replay(
                connection, actor.tenant_id, subscription_id, position
            )
            if running is None:
                raise not_found("subscription", subscription_id)
            if running:
                await subscription_store.start(connection, actor.tenant_id, subscription_id)
            await self._record(
                connection, actor, subscription_id, "replayed", {"position": position}
            )
            row = await _found(connection, actor.tenant_id, subscription_id)
            await remember(connection, row)
        self._started()
        return row

    async def _check(self, tenant_id: int, destination: Webhook | Queue) -> None:
        if refusal := check_destination(destination, self._allowed):
            raise RefusedError(refusal)
        if destination.name is None:
            return
        kind = "queue" if isinstance(destination, Queue) else "webhook"
        refusals = await self._check_names([(tenant_id, kind, destination.name)])
        for refusal in refusals.values():
            raise RefusedError(refusal)

    async def _record(
        self,
        connection: Connection,
        actor: Identity,
        subscription_id: UUID,
        verb: str,
        data: dict[str, Any] | None = None,
    ) -> None:
        about, kind = (actor.tenant_id, subscription_id), f"subscription.{verb}"
        await record_event(connection, about, kind, actor.key_id, data)


def _accounts(actor: Identity, accounts: list[str] | None) -> list[str] | None:
    """Limit a subscription to the accounts of the key that creates it."""
    if accounts is not None and not 0 < len(accounts) <= MAX_ACCOUNTS:
        raise refuse(Code.INVALID_FIELD, f"Name 1 to {MAX_ACCOUNTS} accounts.", "accounts")
    if actor.accounts is None:
        return accounts
    wanted = set(actor.accounts if accounts is None else accounts)
    if not wanted <= actor.accounts:
        raise refuse(Code.FORBIDDEN, "The key is limited to other accounts.", "accounts")
    return sorted(wanted)


async def _check_reach(connection: Connection, actor: Identity, subscription_id: UUID) -> None:
    """Refuse a key limited to accounts, unless the subscription is limited to them too."""
    if actor.accounts is None:
        return
    row = await _found(connection, actor.tenant_id, subscription_id)
    if not actor.covers(row.accounts):
        raise not_found("subscription", subscription_id)


async def _position(connection: Connection, tenant_id: int, wanted: int | None) -> int:
    last = await seal.position(connection, tenant_id)
    if wanted is not None and wanted > last:
        raise refuse(Code.INVALID_CURSOR, "The cursor is beyond the last event.", "from")
    return last if wanted is None else wanted


async def _found(connection: Connection, tenant_id: int, subscription_id: UUID) -> SubscriptionRow:
    rows = await subscription_store.page(connection, tenant_id, MIN_ID, 1, subscription_id)
    if not rows:
        raise not_found("subscription", subscription_id)
    return rows[0]
