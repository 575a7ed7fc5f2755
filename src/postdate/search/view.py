"""Find what was created under an idempotency key, and lanes and schedules by name."""

from typing import Final, NamedTuple
from uuid import UUID

from postdate.database.connection.database import Database
from postdate.intake import store
from postdate.intake.store import KeyScope, key_of
from postdate.lane.store.lane import LaneDirectory
from postdate.schedule.store import schedule_view

SCOPES: Final = {
    "payment": KeyScope.PAYMENT,
    "job": KeyScope.JOB,
    "schedule": KeyScope.SCHEDULE,
}
"""What a client may create under an idempotency key, and later search for."""


SCHEDULE_SCAN: Final = 5000
"""How many of the newest schedules are searched for a name."""


class CreatedUnderKey(NamedTuple):
    """What a request created: its kind and its id."""

    kind: str
    subject: UUID


class SearchViews:
    """Look up idempotency keys, lanes and schedules on behalf of a tenant."""

    def __init__(self, database: Database, lanes: LaneDirectory) -> None:
        self._database = database
        self._lanes = lanes

    async def has_lane(self, tenant_id: int, name: str) -> bool:
        """Return whether a tenant has a lane of this name."""
        return bool(await self._lanes.of_tenant(tenant_id, name))

    async def lanes_like(self, tenant_id: int, text: str, limit: int) -> list[str]:
        """List lanes whose names hold a text."""
        names = {lane.name for lane in await self._lanes.of_tenant(tenant_id)}
        return sorted(name for name in names if text.lower() in name.lower())[:limit]

    async def schedules_like(self, tenant_id: int, text: str, limit: int) -> list[tuple[UUID, str]]:
        """List schedules whose names hold a text, the newest first."""
        reader = self._database.tenant_reader(tenant_id)
        return await schedule_view.named(reader, tenant_id, text, SCHEDULE_SCAN, limit)

    async def under_key(self, tenant_id: int, key: str) -> list[CreatedUnderKey]:
        """Return what was created under a key, at most one of each kind."""
        keys = {key_of(tenant_id, scope, key): kind for kind, scope in SCOPES.items()}
        reader = self._database.tenant_reader(tenant_id)
        found = await store.find(reader, list(keys))
        return [
            CreatedUnderKey(keys[each], row.subject)
            for each, row in found.items()
            if row.subject is not None
        ]
