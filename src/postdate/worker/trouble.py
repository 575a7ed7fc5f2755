"""Report failing destinations to the other processes, only if something has changed."""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from postdate.database.connection.database import Database
from postdate.destination.spec.trouble import DestinationKey, TroubleReport
from postdate.destination.store import trouble

AGAIN_SECONDS: Final = 20.0
"""How often an unchanged outage is reported again, so that other nodes keep trusting it."""

MAX_REPORTED: Final = 500
"""Maximum number of destinations that one process reports."""


class TroubleReporter:
    """Stores the state of this process's breakers; writes nothing while all are closed."""

    def __init__(
        self,
        database: Database,
        node_id: UUID,
        reports: Callable[[], Mapping[DestinationKey, TroubleReport]],
    ) -> None:
        self._database = database
        self._node_id = node_id
        self._reports = reports
        self._reported: dict[DestinationKey, tuple[int, float]] = {}

    async def run_once(self, _: int = 1) -> int:
        """Report what changed since the last report."""
        now = time.monotonic()
        found = dict(islice(self._reports().items(), MAX_REPORTED))
        changed = {
            key: each for key, each in found.items() if self._is_worth_writing(key, each, now)
        }
        over = [key for key in self._reported if key not in found]
        if not changed and not over:
            return 0
        async with self._database.connection() as connection:
            await trouble.write_reports(connection, self._node_id, changed, over)
        for key in over:
            del self._reported[key]
        self._reported |= {key: (each.recorded, now) for key, each in changed.items()}
        return 0

    def _is_worth_writing(self, key: DestinationKey, report: TroubleReport, now: float) -> bool:
        reported = self._reported.get(key)
        return (
            reported is None or reported[0] != report.recorded or now - reported[1] > AGAIN_SECONDS
        )
