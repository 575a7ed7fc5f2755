"""`postdate migrate`: bring the schema up to date."""

import uvloop

from postdate.cli.database import configured
from postdate.cli.output import progress, show, wants_json
from postdate.node import database_address
from postdate.schema import migrate as migrations


def migrate(*, dry_run: bool = False, citus: bool = False) -> None:
    """Bring the schema up to date; with --dry-run only say what would be applied.

    --citus also distributes the tables over a Citus cluster; it is run on the coordinator.
    """

    async def run() -> list[str]:
        address = await database_address.running(settings)
        if address is not None:
            return await apply(address.owner)
        async with database_address.serving(settings, attach=False) as own:
            return await apply(own.owner)

    async def apply(owner: str) -> list[str]:
        with progress("migrating", None) as step:
            return await migrations.migrate(owner, dry_run=dry_run, citus=citus, step=step)

    settings = configured()
    names = uvloop.run(run())
    key = "pending" if dry_run else "applied"
    show({key: names} if wants_json() else [{key: name} for name in names])
