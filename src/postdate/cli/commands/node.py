"""`postdate node`: list the processes of the cluster."""

from typing import Any

import cyclopts
import msgspec

from postdate.cli.command_table import HELP
from postdate.cli.database import with_database
from postdate.cli.output import show
from postdate.database.connection.database import Database
from postdate.runtime import node as node_store

node_app = cyclopts.App(name="node", help=HELP["node"])


@node_app.command(name="list")
def node_list() -> None:
    """List the nodes that have not signed off; one that is not live has stopped reporting."""

    async def run(database: Database) -> list[dict[str, Any]]:
        async with database.connection() as connection:
            live = {row.node_id for row in await node_store.list_live(connection)}
            rows = await node_store.list_live(connection, node_store.FORGET_SECONDS)
        return [msgspec.structs.asdict(row) | {"live": row.node_id in live} for row in rows]

    show(with_database(run))
