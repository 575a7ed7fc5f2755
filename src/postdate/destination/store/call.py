"""The results of the latest calls to destinations, as reported by each process."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, Reader, query
from postdate.destination.spec.call import CallReport
from postdate.destination.spec.trouble import DestinationKey

KEPT_SECONDS: Final = 24 * 3600.0
"""How long the last report of a process is kept."""


class NodeCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The latest calls of a target by one node; an answer has its seconds before the report."""

    target: str
    node_id: UUID
    calls: int
    successes: int
    p50_ms: int
    p99_ms: int
    answers: list[tuple[float, int, bool, str]]
    reported_at: datetime


async def write_reports(
    connection: Connection, node_id: UUID, reports: Mapping[DestinationKey, CallReport]
) -> None:
    """Store what changed in a process, and delete reports that have expired."""
    rows = [(*key, *report[1:]) for key, report in reports.items()]
    await connection.execute(query("call_report"), node_id, *zip(*rows, strict=True))
    await connection.execute(query("call_forget"), KEPT_SECONDS)


async def of_targets(
    reader: Reader, tenant_id: int, targets: Sequence[str], max_nodes: int
) -> list[NodeCalls]:
    """Read the calls of some targets of a tenant, each by the nodes that reported last."""
    rows = await reader.fetch(query("call_of_targets"), tenant_id, targets, max_nodes)
    return [msgspec.convert(dict(row), NodeCalls) for row in rows]


async def doubted(reader: Reader, tenant_id: int, limit: int) -> dict[str, datetime | None]:
    """Read the targets whose newest answer to a node is a failure, and when each was changed."""
    rows = await reader.fetch(query("call_doubted"), tenant_id, limit)
    return {target: changed_at for target, changed_at in rows}  # noqa: C416 - records


async def of_node(reader: Reader, node_id: UUID, limit: int) -> list[NodeCalls]:
    """Read the calls of one node, those reported last first."""
    rows = await reader.fetch(query("call_of_node"), node_id, limit)
    return [msgspec.convert(dict(row), NodeCalls) for row in rows]
