"""Halt a tenant immediately or for a window of time, and release it."""

from datetime import datetime
from typing import Final

import msgspec

from postdate.audit.spec import CLI
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.event.store.event import named, record_event
from postdate.halt import store
from postdate.halt.spec import Halt, HaltKind, Halts, Mode, refusal
from postdate.halt.store import NewHalt
from postdate.intake.before_change import BeforeChange, always
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import Code, RefusedError, not_found, refuse

OPERATORS: Final = frozenset({CLI, "internal"})
"""Who may lift what an operator has set."""

MAX_WAITS: Final = 10
"""How often, for a second each, a switch waits for what began before it was turned."""

_SET: Final = {"kill": "tenant.killed", "freeze": "tenant.frozen"}
_LIFTED: Final = {"kill": "tenant.released", "freeze": "tenant.thawed"}


class FreezeWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A freeze: from when (None: now) until when, and what it does to work that is due."""

    from_at: datetime | None
    until_at: datetime
    mode: Mode


class Halting:
    """Turns a tenant's kill switch on and off, and sets and ends its freeze window."""

    def __init__(self, database: Database, known: Halts) -> None:
        self._database = database
        self._known = known

    async def kill(
        self, tenant_id: int, note: str, actor: str, before: BeforeChange[Halt | None] = always
    ) -> list[Halt]:
        """Turn on a tenant's kill switch; once this returns, none of its money moves.

        Nothing is accepted either. If this is refused because running work does not end, the switch
        is on nevertheless, and nothing new begins.
        """
        new = NewHalt(tenant_id, "kill", "hold", None, None, note, actor)
        return await self._set(new, before)

    async def freeze(
        self,
        tenant_id: int,
        window: FreezeWindow,
        note: str,
        actor: str,
        before: BeforeChange[Halt | None] = always,
    ) -> list[Halt]:
        """Hold due work, or accept nothing new, between two instants."""
        until = window.until_at
        if window.from_at is not None and window.from_at >= until:
            raise refuse(Code.INVALID_FIELD, "The window must end after it begins.", "until")
        new = NewHalt(tenant_id, "freeze", window.mode, window.from_at, until, note, actor)
        return await self._set(new, before)

    async def lift(
        self, tenant_id: int, kind: HaltKind, actor: str, before: BeforeChange[Halt | None] = always
    ) -> list[Halt]:
        """End a halt, if there is one; only the operator can end a halt that the operator set."""
        async with self._database.write("halt.lift") as connection:
            await store.change_alone(connection, tenant_id)
            found = await _current(connection, tenant_id, kind)
            allowed = await before(connection, found)
            if allowed and found and found.set_by in OPERATORS and actor not in OPERATORS:
                raise refuse(
                    Code.FORBIDDEN, "Only the operator can lift a halt that the operator set."
                )
            if allowed and found is not None:
                await store.lift(connection, tenant_id, kind)
                about = named(tenant_id, "halt", kind)
                await record_event(connection, about, _LIFTED[kind], actor, {})
        return await self._refresh(tenant_id)

    async def disable(self, name: str, note: str, actor: str) -> None:
        """Disable a tenant: stop it, and refuse its keys and tokens within five seconds."""
        tenant_id = await self._number(name)
        await self.kill(tenant_id, note, actor)
        await self._disable(tenant_id, name, actor, disabled=True)

    async def enable(self, name: str, actor: str) -> None:
        """Enable a disabled tenant."""
        tenant_id = await self._number(name)
        await self._disable(tenant_id, name, actor, disabled=False)
        await self.lift(tenant_id, "kill", actor)

    async def _disable(self, tenant_id: int, name: str, actor: str, *, disabled: bool) -> None:
        event = "tenant.disabled" if disabled else "tenant.enabled"
        about = named(tenant_id, "tenant", name)
        async with self._database.write("tenant.disable") as connection:
            if await tenant_store.disable(connection, tenant_id, disabled=disabled):
                data = {"tenant": name}
                await record_event(connection, about, event, actor, data)

    async def _number(self, name: str) -> int:
        async with self._database.connection() as connection:
            found = await tenant_store.find(connection, name)
        if found is None:
            raise not_found("tenant", name)
        return found

    async def check_killed(self, tenant_id: int) -> None:
        """Refuse a change if the tenant's kill switch is on, according to the database."""
        for halt in await self._refresh(tenant_id):
            if halt.kind == "kill":
                raise RefusedError(refusal(halt))

    async def _set(self, new: NewHalt, before: BeforeChange[Halt | None]) -> list[Halt]:
        async with self._database.write("halt.set") as connection:
            await store.change_alone(connection, new.tenant_id)
            found = await _current(connection, new.tenant_id, new.kind)
            if await before(connection, found):
                await self._put(connection, new, found)
        halts = await self._refresh(new.tenant_id)
        await self._wait_for_others(new.tenant_id)
        return halts

    async def _put(self, connection: Connection, new: NewHalt, found: Halt | None) -> None:
        if found and found.set_by in OPERATORS and new.set_by not in OPERATORS:
            raise refuse(
                Code.FORBIDDEN, "Only the operator can change a halt that the operator set."
            )
        from_at = await store.put(connection, new)
        if from_at is None:
            raise refuse(Code.INVALID_FIELD, "The window has already ended.", "until")
        data = {"mode": new.mode, "from": from_at, "until": new.until_at, "note": new.note}
        about = named(new.tenant_id, "halt", new.kind)
        builtins = msgspec.to_builtins(data)
        await record_event(connection, about, _SET[new.kind], new.set_by, builtins)

    async def _wait_for_others(self, tenant_id: int) -> None:
        """Wait until everything that did not see the switch has ended.

        The switch was committed before: whatever begins now sees it, even if this fails.
        """
        for _ in range(MAX_WAITS):
            try:
                async with self._database.write("halt.wait") as connection:
                    await store.wait_alone(connection)
                # Separately, so that no other tenant waits for a client's slow commit.
                async with self._database.write("halt.wait_client") as connection:
                    await store.wait_client_alone(connection, tenant_id)
            except LockNotAvailableError:
                continue
            return
        raise refuse(
            Code.OVERLOADED,
            "The kill switch is on. Work that had already started is still finishing; retry to see"
            " when it has ended.",
            retry_after_seconds=1,
        )

    async def _refresh(self, tenant_id: int) -> list[Halt]:
        """Refresh the halts of this node immediately; return those of the tenant."""
        async with self._database.connection() as connection:
            halts = await store.load(connection)
        self._known.replace(halts)
        return [halt for halt in halts if halt.tenant_id == tenant_id]


async def _current(connection: Connection, tenant_id: int, kind: HaltKind) -> Halt | None:
    halts = await store.load(connection, tenant_id)
    return next((halt for halt in halts if halt.kind == kind), None)
