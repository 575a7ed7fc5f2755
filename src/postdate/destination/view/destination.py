"""Read destinations: everything except their secrets."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.destination.spec.destination import DestinationType
from postdate.destination.spec.trouble import Trouble, Troubles
from postdate.destination.store import call as call_store
from postdate.destination.store import destination as destination_store
from postdate.destination.store.destination import DestinationRow
from postdate.destination.view.destination_call import (
    MAX_NODES,
    MAX_ROWS,
    CallSummary,
    summarize,
    summarize_each,
)


class DestinationStatus(StrEnum):
    """Whether a destination is delivered to."""

    ACTIVE = "ACTIVE"
    FAILING = "FAILING"
    DISABLED = "DISABLED"


class TroubleView(msgspec.Struct, frozen=True, kw_only=True):
    """A failing destination: its latest calls since the failures began, across all nodes.

    Only an occasional probe is sent; `last_answers` has the newest last.
    """

    since: datetime
    held_until: datetime
    calls: int
    success_rate: float
    p99_ms: int
    last_answers: list[str]


class DestinationView(msgspec.Struct, frozen=True, kw_only=True):
    """A destination as its tenant sees it. FAILING: no call has succeeded since `failing_since`.

    With a `trouble` its jobs are held back, too; the first failures only make it FAILING.
    """

    name: str
    type: DestinationType
    status: DestinationStatus
    failing_since: datetime | None
    trouble: TroubleView | None
    url: str | None
    kind: str | None
    max_running: int | None
    rate_per_second: float | None
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_secret_until: datetime | None
    created_at: datetime
    changed_at: datetime


def view(
    row: DestinationRow, trouble: Trouble | None = None, calls: CallSummary | None = None
) -> DestinationView:
    """Show a destination, its trouble, and whether its latest calls all failed."""
    failing_since = None if calls is None else calls.failing_since(row.changed_at)
    if trouble is not None:
        failing_since = min(trouble.since, failing_since or trouble.since)
    status = DestinationStatus.FAILING if failing_since else DestinationStatus.ACTIVE
    return shaped(
        DestinationView,
        row,
        type=DestinationType(row.type),
        status=DestinationStatus.DISABLED if row.disabled_at is not None else status,
        failing_since=failing_since,
        trouble=None if trouble is None else trouble_view(trouble),
        previous_secret_until=row.previous_until,
    )


def trouble_view(trouble: Trouble) -> TroubleView:
    """Show a trouble."""
    rate = round(trouble.successes / max(1, trouble.calls), 4)
    return shaped(TroubleView, trouble, success_rate=rate, last_answers=list(trouble.answers))


class DestinationViews:
    """Find and list a tenant's destinations."""

    def __init__(self, database: Database, troubles: Troubles | None = None) -> None:
        self._database = database
        self._troubles = troubles or Troubles()

    def failing(self, tenant_id: int) -> list[Trouble]:
        """List the failing names and URLs, the longest failing first."""
        return self._troubles.of_tenant(tenant_id)

    async def find(self, tenant_id: int, name: str) -> DestinationView | None:
        """Find one by name."""
        reader = self._database.tenant_reader(tenant_id)
        row = await destination_store.find(reader, tenant_id, name)
        return None if row is None else await self.show(row)

    async def calls(self, tenant_id: int, name: str) -> CallSummary | None:
        """Return the results of the latest calls to a destination, across all nodes."""
        reader = self._database.tenant_reader(tenant_id)
        return summarize(await call_store.of_targets(reader, tenant_id, [name], MAX_ROWS))

    async def calls_of(self, tenant_id: int, names: Sequence[str]) -> dict[str, CallSummary]:
        """Return the same for several destinations, by name."""
        reader = self._database.tenant_reader(tenant_id)
        return summarize_each(await call_store.of_targets(reader, tenant_id, names, MAX_NODES))

    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[DestinationView], str | None]:
        """List by name; the second value is where the next page begins."""
        reader = self._database.tenant_reader(tenant_id)
        rows = await destination_store.page(reader, tenant_id, after, limit + 1)
        following = rows[limit - 1].name if len(rows) > limit else None
        shown = rows[:limit]
        calls = await self.calls_of(tenant_id, [row.name for row in shown])
        return [self._view(row, calls.get(row.name)) for row in shown], following

    async def show(self, row: DestinationRow) -> DestinationView:
        """Show a row with what this node knows of its trouble, and with its latest calls."""
        return self._view(row, await self.calls(row.tenant_id, row.name))

    def _view(self, row: DestinationRow, calls: CallSummary | None) -> DestinationView:
        return view(row, self._troubles.at(row.tenant_id, row.name), calls)
