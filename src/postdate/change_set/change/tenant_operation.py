"""Freeze and halt a tenant and change its settings, and undo it unless others have since."""

from typing import Literal

from postdate.change_set.change.change import ChangeStep, Freeze, HaltTenant, PutSetting
from postdate.change_set.change.step_work import ObjectOperation, StepWork
from postdate.core.identity import Identity
from postdate.core.setting.table import SettingValue
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import FOR_EVER, Hypothesis
from postdate.halt.change import FreezeWindow, Halting
from postdate.halt.spec import Halt
from postdate.setting.change import SettingChanges, check_own
from postdate.setting.spec import SettingSpec
from postdate.setting.store import SettingRow
from postdate.words.error import Code, RefusedError, refuse


class HaltOperation(ObjectOperation):
    """Freezes and halts."""

    def __init__(self, halts: Halting) -> None:
        self._halts = halts
        self.check_killed = halts.check_killed

    async def plan(self, _actor: Identity, change: Freeze | HaltTenant) -> ChangeStep:
        """Refuse a window that ends before it begins."""
        if isinstance(change, Freeze) and change.from_at and change.from_at >= change.until_at:
            raise refuse(Code.INVALID_FIELD, "The window ends before it begins.", "until_at")
        return ChangeStep()

    async def suppose(
        self,
        _actor: Identity,
        change: Freeze | HaltTenant,
        _step: ChangeStep,
        hypothesis: Hypothesis,
    ) -> None:
        """Add the time in which nothing starts; a halt has no end."""
        if isinstance(change, HaltTenant):
            hypothesis.freeze = None, FOR_EVER
        elif hypothesis.freeze is None:
            hypothesis.freeze = change.from_at, change.until_at

    async def make(self, work: StepWork, change: Freeze | HaltTenant) -> None:
        """Set the halt; leave an existing one as it is, and refuse a second freeze.

        It is done when everything that began earlier has ended; a repeated call waits again.
        """
        actor, step = work.actor, work.step

        async def before(connection: Connection, found: Halt | None) -> bool:
            theirs = found is not None and found.note != work.note
            if theirs and isinstance(change, Freeze):
                raise refuse(Code.CONFLICT, "The tenant has a freeze window already.")
            step.state, step.before = "begun", theirs
            await work.record(connection)
            return found is None

        if isinstance(change, HaltTenant):
            await self._halts.kill(actor.tenant_id, work.note, actor.key_id, before)
        else:
            window = FreezeWindow(from_at=change.from_at, until_at=change.until_at, mode="hold")
            await self._halts.freeze(actor.tenant_id, window, work.note, actor.key_id, before)
        await work.end(0)

    async def unmake(self, work: StepWork, change: Freeze | HaltTenant) -> None:
        """Lift the halt that this change set; leave one that others have set since."""
        kind: Literal["kill", "freeze"] = "kill" if isinstance(change, HaltTenant) else "freeze"

        def is_ours(found: Halt | None) -> bool:
            return found is not None and found.note == work.note

        others = f"{change.__struct_config__.tag}: it was set or lifted by others since"
        before = work.restoring(is_ours, others)
        await self._halts.lift(work.actor.tenant_id, kind, work.actor.key_id, before)


class SettingOperation(ObjectOperation):
    """Sets a tenant's own settings."""

    def __init__(self, database: Database, settings: SettingChanges) -> None:
        self._database = database
        self._settings = settings

    async def plan(self, actor: Identity, change: PutSetting) -> ChangeStep:
        """Refuse a value that the tenant may not set."""
        async with self._database.connection() as connection:
            await check_own(connection, actor, change.name, change.value)
        return ChangeStep()

    async def suppose(
        self, _actor: Identity, change: PutSetting, _step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add the value; the settings `foresight.*` change what is late."""
        hypothesis.settings[change.name] = change.value

    async def make(self, work: StepWork, change: PutSetting) -> None:
        """Set the value."""

        def was(found: SettingRow | None) -> list[SettingValue | None]:
            return [None if found is None else found.value, work.actor.key_id]

        await self._settings.put_own(
            work.actor, change.name, SettingSpec(value=change.value), work.recording(was)
        )

    async def unmake(self, work: StepWork, change: PutSetting) -> None:
        """Restore the old value, unless others changed it or it is no longer allowed."""
        try:
            await self._unmake(work, change)
        except RefusedError as error:
            if error.refusal.code is not Code.FORBIDDEN:
                raise
            await work.end_undone(f"setting {change.name}: {error.refusal.detail}")

    async def _unmake(self, work: StepWork, change: PutSetting) -> None:
        value, by = work.step.before

        def is_ours(found: SettingRow | None) -> bool:
            return found is not None and (found.value, found.changed_by) == (change.value, by)

        before = work.restoring(is_ours, f"setting {change.name}: it was set by others since")
        if value is None:
            await self._settings.clear_own(work.actor, change.name, before)
        else:
            await self._settings.put_own(work.actor, change.name, SettingSpec(value=value), before)
