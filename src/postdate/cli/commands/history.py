"""`postdate history`: list, detach, drop and repair weeks of history."""

from collections.abc import Awaitable
from typing import Annotated, Any, Final, TypeVar

import cyclopts

from postdate.cli.command_table import HELP
from postdate.cli.database import read_database, with_database
from postdate.cli.output import show
from postdate.database import partition
from postdate.database.connection.database import Database
from postdate.database.connection.error import PartitionRefusedError
from postdate.database.partition import Strays
from postdate.monitor.store import history as store
from postdate.words.error import Code, refuse

LAST_YEAR: Final = 9999

T = TypeVar("T")
DryRunOption = Annotated[
    bool, cyclopts.Parameter(negative=(), help="Only show what would be done.")
]

history_app = cyclopts.App(name="history", help=HELP["history"])


@history_app.command(name="list")
def history_list() -> None:
    """List every week of every table of facts, with its size."""
    show(read_database(store.page))


@history_app.command(name="detach")
def history_detach(partition: str, *, money: bool = False) -> None:
    """Detach a week: it can be dumped and dropped, and is no longer read.

    Parameters
    ----------
    partition
        Its name, from `history list`.
    money
        Required for payments, transfers and outcomes; their proofs then begin after this week.

    """

    async def run(database: Database) -> None:
        async with database.write() as connection:
            await _asked(store.detach(connection, partition, money=money))

    with_database(run)
    show({"partition": partition, "detached": True})


@history_app.command(name="drop")
def history_drop(partition: str) -> None:
    """Drop a detached week permanently."""

    async def run(database: Database) -> None:
        async with database.write() as connection:
            await _asked(store.drop(connection, partition))

    with_database(run)
    show({"partition": partition, "dropped": True})


@history_app.command(name="mend")
def history_mend(*, dry_run: DryRunOption = False) -> None:
    """Move rows out of the default partitions, each into the partition of its week.

    The table is locked while its rows are moved. Ids beyond the year 9999 stay where they are.
    """

    async def run(database: Database) -> list[dict[str, Any]]:
        async with database.connection() as connection:
            found = await partition.list_misplaced(connection)
        return [await _mended(database, each, dry_run=dry_run) for each in found]

    show(with_database(run))


async def _mended(database: Database, found: Strays, *, dry_run: bool) -> dict[str, Any]:
    movable = found.monday.year < LAST_YEAR
    moved = 0
    if movable and not dry_run:
        async with database.write() as connection:
            moved = await _asked(partition.move_misplaced(connection, found.parent, found.monday))
    return {"table": found.parent, "week": found.monday, "rows": found.rows, "moved": moved}


async def _asked(work: Awaitable[T]) -> T:
    try:
        return await work
    except PartitionRefusedError as error:
        raise refuse(Code.CONFLICT, f"{error}.", "partition") from None
