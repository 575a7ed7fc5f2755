"""End halts: return the waiting payments to settlement, then delete the halt."""

from collections.abc import Callable
from typing import Final

from postdate.audit.spec import SYSTEM
from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Database
from postdate.event.store.event import named, record_event
from postdate.halt import store
from postdate.halt.store import EndedHalt
from postdate.runtime.shared_read import SharedReads

LOOK_SECONDS: Final = 1.0


class HaltEnds:
    """Finds halts that have ended; any number of nodes may do so."""

    def __init__(
        self, database: Database, returned: Callable[[], None], reads: SharedReads | None = None
    ) -> None:
        self._database = database
        self._reads = reads or SharedReads(database)
        self._returned = returned

    async def run_once(self, _: int = 1) -> int:
        """Return waiting payments to settlement; return 0, so that the loop pauses."""
        ended = await store.list_ended(self._reads)
        failed: list[Exception] = []
        for over in ended:
            try:
                await self._bring_back(over)
            except Exception as error:  # noqa: BLE001 - raised when the others have been seen to
                failed.append(error)
        if ended:
            self._returned()
        if failed:
            raise failed[0]
        return 0

    async def _bring_back(self, over: EndedHalt) -> None:
        """Return payments bucket by bucket, then once more exclusively: some may be added.

        Locked payments are returned the next time, and only then is the halt deleted. No node
        settles during the exclusive part, so it is only done if it can succeed.
        """
        everything = True
        for bucket in range(BUCKETS):
            async with self._database.write("halt.bring_back") as connection:
                everything &= await store.bring_back(connection, bucket, over.tenant_id)
        if not everything:
            return
        async with self._database.write("halt.end") as connection:
            await store.wait_alone(connection)
            for bucket in range(BUCKETS):
                everything &= await store.bring_back(connection, bucket, over.tenant_id)
            if everything and await store.delete(connection, over) and over.by_clock:
                about = named(over.tenant_id, "halt", over.kind)
                await record_event(connection, about, "tenant.thawed", SYSTEM)
