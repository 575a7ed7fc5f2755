"""Destinations in trouble: reported by each process, read by all."""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from postdate.database.connection.query import Connection, Reader, fetch_all, query
from postdate.destination.spec.trouble import DestinationKey, Trouble, TroubleReport

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
    """Store what changed in a process, and delete reports that have expired."""
    gone = list(over)
    if gone:
        tenants, destinations = zip(*gone, strict=True)
        await connection.execute(query("trouble_over"), node_id, tenants, destinations)
    if reports:
        columns = zip(*((*key, *report[1:]) for key, report in reports.items()), strict=True)
        await connection.execute(query("trouble_report"), node_id, *columns)
    await connection.execute(query("trouble_forget"), KEPT_SECONDS)


async def load(reader: Reader) -> list[Trouble]:
    """Read what all processes together report."""
    return await fetch_all(reader, Trouble, "trouble_all", BELIEVED_SECONDS, MAX_TROUBLES)
