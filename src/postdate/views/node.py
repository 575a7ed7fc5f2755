"""Nodes as an operator sees them: who is alive, who fell silent without signing off."""

from datetime import UTC, datetime
from uuid import UUID

import msgspec

from postdate.store import node as node_store
from postdate.store.database import Database
from postdate.store.node import FORGET_SECONDS, LIVE_SECONDS


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A process; `live` as long as it is heard."""

    node_id: UUID
    name: str
    roles: list[str]
    version: str
    started_at: datetime
    seen_at: datetime
    live: bool


class NodeViews:
    """Read the nodes; they belong to no tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, tenant_id: int) -> list[NodeView]:
        """List the nodes that have not signed off, the silent ones first."""
        async with self._database.read(tenant_id) as connection:
            rows = await node_store.live(connection, FORGET_SECONDS)
        now = datetime.fromtimestamp(self._database.unix_ms() / 1000, UTC)
        views = [
            NodeView(
                node_id=row.node_id,
                name=row.name,
                roles=row.roles,
                version=row.version,
                started_at=row.started_at,
                seen_at=row.seen_at,
                live=(now - row.seen_at).total_seconds() < LIVE_SECONDS,
            )
            for row in rows
        ]
        return sorted(views, key=lambda view: (view.live, view.name, view.node_id))
