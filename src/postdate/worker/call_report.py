"""Report the results of the latest calls to each destination to the other processes."""

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from postdate.database.connection.database import Database
from postdate.destination.spec.call import CallReports
from postdate.destination.store import call

REPORT_SECONDS: Final = 10.0
"""How often this is told; while nothing is called nothing is written."""


class CallReporter:
    """Stores the call results of this process."""

    def __init__(
        self, database: Database, node_id: UUID, reports: Callable[[float], CallReports]
    ) -> None:
        self._database = database
        self._node_id = node_id
        self._reports = reports
        self._reported: CallReports = {}

    async def run_once(self, _: int = 1) -> int:
        """Report the destinations that were called since the last report."""
        found = self._reports(time.monotonic())
        known = {key: each.recorded for key, each in self._reported.items()}
        changed = {key: each for key, each in found.items() if known.get(key) != each.recorded}
        if changed:
            async with self._database.connection() as connection:
                await call.write_reports(connection, self._node_id, changed)
        self._reported = found
        return 0
