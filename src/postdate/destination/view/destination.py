"""Read destinations: everything except their secrets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from postdate.core.identity import Scope
from postdate.core.limit import LIMITS
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.destination.spec.destination import (
    DestinationSpec,
    DestinationStatus,
    DestinationView,
    TroubleView,
)
from postdate.destination.spec.trouble import Trouble, Troubles
from postdate.destination.store import call as call_store
from postdate.destination.store import destination as destination_store
from postdate.destination.view.destination_call import (
    MAX_NODES,
    MAX_ROWS,
    CallSummary,
    summarize,
    summarize_each,
)
from postdate.resource.resource import CountLimit, Resource

DESTINATION: Final = Resource(
    noun="destination",
    spec=DestinationSpec,
    shows=DestinationView,
    read=Scope.JOBS_READ,
    write=Scope.ADMIN,
    patchable=("url", *LIMITS),
    limit=CountLimit("destination.max_count", destination_store.count),
    columns=("name", "type", "status", "url", *LIMITS),
    more_event_fields=("disabled_reason", "paused_reason"),
)


def _show(
    found: DestinationView, trouble: Trouble | None, calls: CallSummary | None
) -> DestinationView:
    """Show a destination with its trouble, and whether its latest calls all failed."""
    since = None if calls is None else calls.failing_since(found.changed_at)
    if trouble is not None:
        since = min(trouble.since, since or trouble.since)
    return replace(
        found,
        status=_status(found, since, calls),
        failing_since=since,
        trouble=None if trouble is None else trouble_view(trouble),
    )


def _status(
    found: DestinationView, failing_since: datetime | None, calls: CallSummary | None
) -> DestinationStatus:
    """Return how its latest calls went, unless it is paused or disabled."""
    if found.status is not DestinationStatus.ACTIVE:
        return found.status
    if failing_since is not None:
        return DestinationStatus.FAILING
    degraded = calls is not None and calls.degraded(found.changed_at)
    return DestinationStatus.DEGRADED if degraded else found.status


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

    async def calls(self, tenant_id: int, name: str) -> CallSummary | None:
        """Return the results of the latest calls to a destination, across all nodes."""
        reader = self._database.tenant_reader(tenant_id)
        return summarize(await call_store.of_targets(reader, tenant_id, [name], MAX_ROWS))

    async def calls_of(self, tenant_id: int, names: Sequence[str]) -> dict[str, CallSummary]:
        """Return the same for several destinations, by name."""
        reader = self._database.tenant_reader(tenant_id)
        return summarize_each(await call_store.of_targets(reader, tenant_id, names, MAX_NODES))

    @DESTINATION.list()
    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[DestinationView], str | None]:
        """List destinations by name.

        Secrets and queue settings are not shown.
        """
        reader = self._database.tenant_reader(tenant_id)
        found = await destination_store.page(reader, tenant_id, after, limit + 1)
        end = found[limit - 1].name if len(found) > limit else None
        calls = await self.calls_of(tenant_id, [each.name for each in found[:limit]])
        return [
            _show(each, self._troubles.at(tenant_id, each.name), calls.get(each.name))
            for each in found[:limit]
        ], end

    @DESTINATION.get()
    async def find(self, tenant_id: int, name: str) -> DestinationView | None:
        """Show a destination.

        `trouble` shows its state while calls to it are held back.
        """
        reader = self._database.tenant_reader(tenant_id)
        found = await destination_store.find(reader, tenant_id, name)
        if found is None:
            return None
        calls = await self.calls(tenant_id, name)
        return _show(found, self._troubles.at(tenant_id, name), calls)
