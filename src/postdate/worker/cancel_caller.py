"""Tell the receivers of running jobs that these are to be cancelled: each at least once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from postdate.core.failpoint import reach
from postdate.database.connection.database import Database
from postdate.job.spec.cancel_call import CancelCall
from postdate.job.spec.job import Webhook
from postdate.job.store import job_cancel_call
from postdate.runtime.shared_read import SharedReads

POLL_SECONDS: Final = 1.0
"""How often requests without a call are searched for."""

MAX_CALLS: Final = 100
"""The most calls that one step makes."""

TAKEN_SECONDS: Final = 15.0
"""How long a call belongs to one node; longer than it may take."""

Notify = Callable[[CancelCall, Webhook], Awaitable[bool]]
"""Calls a cancel URL; returns whether the receiver has heard it, or never will."""


class CancelCaller:
    """Calls cancel URLs until they answer, the job has ended, or its deadline has passed."""

    def __init__(
        self, database: Database, notify: Notify, reads: SharedReads | None = None
    ) -> None:
        self._database = database
        self._notify = notify
        self._reads = reads or SharedReads(database)

    async def run_once(self, limit: int) -> int:
        """Make the calls that are due, all at once; return how many."""
        found = await job_cancel_call.due(self._reads, limit)
        await asyncio.gather(*map(self._call, found))
        return len(found)

    async def _call(self, job_id: UUID) -> None:
        async with self._database.near.write("job.cancel_call") as connection:
            call = await job_cancel_call.take(connection, job_id, TAKEN_SECONDS)
            if call is None:
                return
            destination = await job_cancel_call.destination_of(connection, call)
        heard = destination is None or await self._notify(call, destination)
        reach("cancel_call.answered")
        if heard:
            async with self._database.near.write("job.cancel_called") as connection:
                await job_cancel_call.finish(connection, call)
