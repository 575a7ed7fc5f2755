"""Prove that the database has exactly the functions of this release."""

import re
from typing import Final

from postdate.database.connection.database import Connection
from postdate.database.shard import shard
from postdate.proof import prove as store
from postdate.proof.prove import LedgerFinding, Range
from postdate.schema import client_rules, migrate

CHECK: Final = "function_is_as_shipped"

NOT_COMPARED: Final = frozenset({"clock", "machine_clock", "server_clock"})
"""Replaced where time is travelled; every node compares the time with that of its own machine."""

BUCKET: Final = 0
"""The bucket with which a round proves them."""

_FUNCTION: Final = re.compile(
    r"CREATE OR REPLACE FUNCTION (\w+)\s*\(.*?\bAS\s+(?:\$\$(.*?)\$\$|'(.*?)')", re.DOTALL
)


async def check(connection: Connection, where: Range) -> list[LedgerFinding]:
    """Compare the bodies of all functions, unless a newer release has put its own there."""
    if where.buckets is not None and BUCKET not in where.buckets:
        return []
    if await migrate.is_older(connection):
        return []
    there = await store.functions(connection)
    shipped = shipped_functions()
    if await shard.is_spread(connection):
        spread = shard.spread_bodies(shipped)
        wrong = [name for name in sorted(spread) if not set(there.get(name, [""])) <= spread[name]]
    else:
        wrong = [name for name in sorted(shipped) if sorted(shipped[name]) != there.get(name)]
    found = [
        LedgerFinding(CHECK, 0, name, "its text is not what this release ships")
        for name in wrong
        if name not in NOT_COMPARED
    ]
    found += [
        LedgerFinding(CHECK, 0, name, "the checksum kept in function_file is not that of its text")
        for name in await migrate.altered_files(connection)
    ]
    found += [
        LedgerFinding(CHECK, 0, name, "the rule of this name is not what this release ships")
        for name in await _altered_rules(connection)
    ]
    return found[: where.limit]


async def _altered_rules(connection: Connection) -> list[str]:
    """Name the rules that functions check by and that are not those of this release."""
    there, shipped = await store.client_rules(connection), client_rules.rules()
    return sorted(
        name for name in there.keys() | shipped.keys() if there.get(name) != shipped.get(name)
    )


def shipped_functions() -> dict[str, list[str]]:
    """Return the bodies of all functions by name, as this code has them."""
    found: dict[str, list[str]] = {}
    for file in migrate.known_functions():
        for name, dollars, quotes in _FUNCTION.findall(file.sql):
            found.setdefault(name, []).append(dollars or quotes)
    return found
