"""Create, pause, resume, replay and delete subscriptions."""

import random
from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.identity import Identity
from postdate.core.ids import BUCKETS, new_id
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.destination.spec.target import Networks
from postdate.event.spec.event import check_patterns, like_patterns
from postdate.event.store import seal
from postdate.http.position import read_position
from postdate.job.accept.intake import CheckNames
from postdate.job.accept.validation import check_destination
from postdate.job.spec.job import Queue
from postdate.resource.change import Change, Changes
from postdate.subscription import store
from postdate.subscription.spec import (
    ReplayBody,
    SubscriptionPauseBody,
    SubscriptionSpec,
    SubscriptionView,
)
from postdate.subscription.store import NewSubscription
from postdate.subscription.view import SUBSCRIPTION
from postdate.words.error import Code, RefusedError, not_found, refuse

MAX_ACCOUNTS: Final = 100
EVERYTHING: Final = ["*"]


class Subscriptions(Changes):
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
        super().__init__(database, settings)
        self._allowed = allowed
        self._check_names = check_names
        self._started = started

    async def _check(self, actor: Identity, spec: SubscriptionSpec) -> None:
        destination = spec.destination
        check_patterns(spec.types)
        _accounts(actor, spec.accounts)
        if refusal := check_destination(destination, self._allowed):
            raise RefusedError(refusal)
        if destination.name is None:
            return
        kind = "queue" if isinstance(destination, Queue) else "webhook"
        refusals = await self._check_names([(actor.tenant_id, kind, destination.name)])
        for refusal in refusals.values():
            raise RefusedError(refusal)

    @SUBSCRIPTION.create(
        errors=(Code.INVALID_CURSOR, Code.TARGET_NOT_ALLOWED, Code.UNKNOWN_DESTINATION),
        check=_check,
    )
    async def create(self, change: Change[Identity], spec: SubscriptionSpec) -> SubscriptionView:
        """Create a subscription: deliver events to a webhook or queue.

        Events are delivered at least once, in order, each with its own id.
        """
        types = check_patterns(spec.types) or EVERYTHING
        new = NewSubscription(
            tenant_id=change.tenant_id,
            subscription_id=new_id(random.randrange(BUCKETS), self.database.unix_ms()),
            destination=msgspec.to_builtins(spec.destination),
            types=types,
            patterns=like_patterns(types),
            accounts=_accounts(change.actor, spec.accounts),
            position=await _position(change, spec.start),
        )
        await store.insert(change.connection, new)
        await self._start(change, new.subscription_id)
        await change.record(new.subscription_id, {"types": types})
        return await _found(change, new.subscription_id)

    @SUBSCRIPTION.delete()
    async def delete(self, change: Change[Identity], subscription_id: UUID) -> None:
        """Delete a subscription.

        An event that is being sent may still arrive.
        """
        await _found(change, subscription_id)
        if not await store.delete(change.connection, change.tenant_id, subscription_id):
            raise not_found("subscription", subscription_id)
        await store.stop(change.connection, subscription_id)
        await change.record(subscription_id)

    @SUBSCRIPTION.act("", "paused", name="change_subscription", method="PATCH")
    async def switch(
        self, change: Change[Identity], subscription_id: UUID, body: SubscriptionPauseBody
    ) -> None:
        """Pause or resume a subscription.

        While it is paused it keeps its position; no event is skipped.
        """
        await _found(change, subscription_id)
        key = change.tenant_id, subscription_id
        if body.paused and await store.pause(change.connection, *key, body.note):
            await store.stop(change.connection, subscription_id)
            await change.record(subscription_id, {"note": body.note})
        if not body.paused and await store.resume(change.connection, *key):
            await self._start(change, subscription_id)
            await change.record(subscription_id, kind="subscription.resumed")

    @SUBSCRIPTION.act(
        "replay", "replayed", once="subscription.replay", errors=(Code.INVALID_CURSOR,)
    )
    async def replay(
        self, change: Change[Identity], subscription_id: UUID, body: ReplayBody
    ) -> SubscriptionView:
        """Move a subscription to another position, to repeat or skip events.

        Receivers recognise repeated events by their id.
        """
        await _found(change, subscription_id)
        position = await _position(change, body.start)
        key = change.tenant_id, subscription_id
        running = await store.replay(change.connection, *key, position)
        if running is None:
            raise not_found("subscription", subscription_id)
        if running:
            await self._start(change, subscription_id)
        await change.record(subscription_id, {"position": position})
        return await _found(change, subscription_id)

    async def _start(self, change: Change[Identity], subscription_id: UUID) -> None:
        await store.start(change.connection, change.tenant_id, subscription_id)
        change.afterwards(self._started)


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


async def _found(change: Change[Identity], subscription_id: UUID) -> SubscriptionView:
    """Find a subscription within the reach of the key: one about other accounts looks missing."""
    found = await store.find(change.connection, change.tenant_id, subscription_id)
    if found is None or not change.actor.covers(found.accounts):
        raise not_found("subscription", subscription_id)
    return found


async def _position(change: Change[Identity], start: str) -> int:
    wanted = read_position(start, "from")
    last = await seal.position(change.connection, change.tenant_id)
    if wanted is not None and wanted > last:
        raise refuse(Code.INVALID_CURSOR, "The cursor is beyond the last event.", "from")
    return last if wanted is None else wanted
