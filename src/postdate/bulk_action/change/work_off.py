"""Work bulk actions off, piece by piece: any node may go on where another one stopped."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.bulk_action import store
from postdate.bulk_action.change.item_change import ItemChanges, PieceWork, passing
from postdate.bulk_action.store import BulkActionKey, BulkItem, HeldBulkAction, ItemOutcome
from postdate.core import origin
from postdate.core.identity import Identity
from postdate.core.test_clock import following_tenant
from postdate.database.connection.database import Connection, Database
from postdate.halt.spec import Halts
from postdate.key.store import key as key_store
from postdate.words.error import Refusal, RefusedError

PIECE: Final = 500
"""The most items of one piece."""

HOLD: Final = timedelta(seconds=30)
"""How long a node that dies keeps others from going on; every transaction extends it."""

PUT_OFF: Final = timedelta(seconds=5)
POLL_SECONDS: Final = 1.8
SYSTEM: Final = "system"
"""Who stops a bulk action whose key has ended."""

_actor: Final = msgspec.json.Decoder(Identity)
_object: Final = msgspec.json.Decoder(dict[str, Any])


class OvertakenError(Exception):
    """It was stopped, or another node works on it: what this one has begun is rolled back."""


class BulkWorker:
    """Does the next piece of each bulk action whose turn it is."""

    def __init__(self, database: Database, changes: ItemChanges, halts: Halts) -> None:
        self._database = database
        self._changes = changes
        self._halts = halts

    async def run_once(self, limit: int) -> int:
        """Do one piece of up to `limit` bulk actions; return how many."""
        async with self._database.connection() as connection:
            due = await store.list_due(connection, limit)
        return sum([await self._go_on(key) for key in due])

    async def _go_on(self, key: BulkActionKey) -> bool:
        async with self._database.write("bulk_action.hold") as connection:
            held = await store.hold(connection, key, HOLD)
        if held is None:
            return False
        actor = _actor.decode(held.actor)
        stamped = None if held.origin is None else _object.decode(held.origin)
        with following_tenant(actor.tenant_id if actor.test else None), origin.resumed(stamped):
            await self._do_piece(key, held, actor)
        return True

    async def _do_piece(self, key: BulkActionKey, held: HeldBulkAction, actor: Identity) -> None:
        if not await self._alive(actor):
            async with self._database.write("bulk_action.key_ended") as connection:
                await store.stop(connection, key, SYSTEM, "The key that began it has ended.")
            return
        if (refusal := self._halted(held, actor)) is not None:
            await self._put_off(key, held, refusal)
            return
        size = PIECE if held.per_second is None else min(PIECE, math.ceil(held.per_second))
        async with self._database.connection() as connection:
            items = await store.piece(connection, key, held.position, size)
        try:
            left = await self._change(key, held, actor, items) if items else {}
        except OvertakenError:
            return
        except RefusedError as error:
            await self._refused(key, held, error)
            return
        await self._finish(key, held, items, left)

    async def _change(
        self, key: BulkActionKey, held: HeldBulkAction, actor: Identity, items: list[BulkItem]
    ) -> Mapping[UUID, str]:
        positions = {each.item_id: each.position for each in items}

        async def mark(connection: Connection, done: Mapping[UUID, ItemOutcome]) -> None:
            if not await store.renew(connection, key, held.token, HOLD):
                raise OvertakenError
            found = {positions[item_id]: outcome for item_id, outcome in done.items()}
            await store.record(connection, key, found)

        work = PieceWork(actor, _object.decode(held.terms), items, mark)
        return await self._changes.of(held.operation)(work)

    async def _finish(
        self,
        key: BulkActionKey,
        held: HeldBulkAction,
        items: list[BulkItem],
        left: Mapping[UUID, str],
    ) -> None:
        """Record why items were left as they are, and how far it has come."""
        whys = {
            each.position: ItemOutcome(left[each.item_id]) for each in items if each.item_id in left
        }
        position = items[-1].position + 1 if items else held.total
        seconds = 0.0 if held.per_second is None else len(items) / held.per_second
        async with self._database.write("bulk_action.progress") as connection:
            if await store.renew(connection, key, held.token, HOLD):
                await store.record(connection, key, whys)
                pause = timedelta(seconds=seconds)
                await store.progress(connection, key, held.token, position, pause)

    async def _refused(self, key: BulkActionKey, held: HeldBulkAction, error: RefusedError) -> None:
        """Wait where the refusal is over by itself; otherwise end, and say why."""
        if passing(error):
            await self._put_off(key, held, error.refusal)
            return
        async with self._database.write("bulk_action.refused") as connection:
            if await store.renew(connection, key, held.token, HOLD):
                await store.stop(connection, key, SYSTEM, error.refusal.detail)

    async def _put_off(self, key: BulkActionKey, held: HeldBulkAction, refusal: Refusal) -> None:
        async with self._database.write("bulk_action.put_off") as connection:
            await store.put_off(connection, key, held.token, PUT_OFF, refusal.detail)

    async def _alive(self, actor: Identity) -> bool:
        """Return whether the key may still act; a token was checked when it began this."""
        if actor.expires_at is not None:
            return True
        async with self._database.connection() as connection:
            return await key_store.alive(connection, UUID(actor.key_id))

    def _halted(self, held: HeldBulkAction, actor: Identity) -> Refusal | None:
        new = held.operation == "redrive_dead_letters"
        return self._halts.refuse(actor.tenant_id, self._database.unix_ms(), new=new)
