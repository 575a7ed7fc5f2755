"""Read the nodes of the cluster, for the operator only."""

from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.destination.store import call as call_store
from postdate.destination.view.destination_call import MAX_ROWS, CallSummary, summarize
from postdate.monitor.view.secret_key import key_name
from postdate.runtime import node as node_store
from postdate.runtime.node import FORGET_SECONDS, KEY_ROLES, LIVE_SECONDS, NodeRow
from postdate.secret import secret as secret_store

MAX_NODES: Final = 500


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node; one that stops normally signs off, so a silent one was killed or is unreachable."""

    node_id: UUID
    name: str
    roles: list[str]
    version: str
    started_at: datetime
    seen_at: datetime
    silent: bool
    lacks: list[str]
    """The secret keys that others have encrypted with and that it was not given."""


class NodeViews:
    """List nodes, and what each has called."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self) -> list[NodeView]:
        """List the nodes of the last week, the silent ones first, then by name."""
        # No tenant's, so not as a reader: the names of nodes are the operator's.
        async with self._database.look_up() as connection:
            rows = await node_store.list_live(connection, FORGET_SECONDS)
            given = await node_store.keys_by_id(connection)
            known = await secret_store.list_known(connection)
        now = self._database.unix_ms() / 1000
        nodes = [_view(row, now, known.difference(given.get(row.node_id, ()))) for row in rows]
        return sorted(nodes, key=lambda node: (not node.silent, node.name, node.node_id))[
            :MAX_NODES
        ]

    async def find(self, node_id: UUID) -> NodeView | None:
        """Find one node."""
        return next((node for node in await self.page() if node.node_id == node_id), None)

    async def calls(self, node_id: UUID) -> CallSummary | None:
        """Return the results of a node's latest calls, for all tenants together."""
        async with self._database.look_up() as connection:
            return summarize(await call_store.of_node(connection, node_id, MAX_ROWS))


def _view(row: NodeRow, now: float, lacks: AbstractSet[int]) -> NodeView:
    return shaped(
        NodeView,
        row,
        silent=now - row.seen_at.timestamp() > LIVE_SECONDS,
        lacks=[] if KEY_ROLES.isdisjoint(row.roles) else [key_name(each) for each in sorted(lacks)],
    )
