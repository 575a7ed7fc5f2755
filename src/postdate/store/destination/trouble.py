"""Destinations in trouble: reported by each process, read by all."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from postdate.model.destination.trouble import DestinationKey, Trouble, TroubleReport
from postdate.store.connection.query import Connection, Reader, query

BELIEVED_SECONDS: Final = 60.0
"""How long a report of a process counts; it reports again long before."""

KEPT_SECONDS: Final = 3600.0
MAX_TROUBLES: Final = 10_000
"""Most destinations in trouble that a node knows of."""


async def write_reports(
    connection: Connection,
    node_id: UUID,
    reports: Mapping[DestinationKey, TroubleReport],
    over: Iterable[DestinationKey],
) -> None:
    """Record what changed in a process, and forget what nobody has reported for long."""
    gone = list(over)
    if gone:
        tenants, destinations = zip(*gone, strict=True)
        await connection.execute(query("trouble_over"), node_id, tenants, destinations)
    if reports:
        columns = zip(*(_row(key, report) for key, report in reports.items()), strict=True)
        await connection.execute(query("trouble_report"), node_id, *columns)
    await connection.execute(query("trouble_forget"), KEPT_SECONDS)


async def load(reader: Reader) -> list[Trouble]:
    """Read what all processes together report."""
    rows = await reader.fetch(query("trouble_all"), BELIEVED_SECONDS, MAX_TROUBLES)
    return [
        Trouble(
            tenant_id=row[0],
            label=row[1],
            held_until=row[2],
            since=row[3],
            calls=row[4],
            successes=row[5],
            p99_ms=row[6],
            answers=tuple(row[7]),
        )
        for row in rows
    ]


def _row(key: DestinationKey, report: TroubleReport) -> tuple[object, ...]:
    return (
        *key,
        report.held_seconds,
        report.open_for_seconds,
        report.calls,
        report.successes,
        report.p99_ms,
        report.answers,
    )
