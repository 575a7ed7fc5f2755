"""Prove that tables, rights, policies and functions are declared as this release ships them."""

from collections import defaultdict
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from postdate.database.connection.database import Connection
from postdate.database.shard import shard
from postdate.proof import catalog as store
from postdate.proof.catalog import CatalogLine
from postdate.proof.prove import LedgerFinding, Range
from postdate.prover.functions import BUCKET, NOT_COMPARED
from postdate.schema import migrate

CHECK: Final = "catalog_is_as_shipped"
CLOCK_CHECK: Final = "clock_watch_is_past"

SPELLED: Final = frozenset({"column", "policy", "trigger", "constraint", "index"})
"""Kinds of lines in which the server spells expressions, as each major version does its own way."""

SPREAD: Final = frozenset({"table", "grant", "policy"})
"""Kinds of lines that are alike where the schema is distributed."""

_SHOWN: Final = 300
"""How many characters of a difference are shown."""


def shipped() -> tuple[int, set[CatalogLine]]:
    """Read what this release ships, and the version of the server that described it."""
    text = files("postdate.proof").joinpath("catalog.txt").read_text()
    head, *lines = text.splitlines()
    return int(head), {CatalogLine(*line.split("\t")) for line in lines}


async def check(connection: Connection, where: Range) -> list[LedgerFinding]:
    """Compare the catalog, unless a newer release has changed it."""
    if where.buckets is not None and BUCKET not in where.buckets:
        return []
    found = [LedgerFinding(CHECK, 0, *each) for each in await store.roles(connection)]
    found += [
        LedgerFinding(CLOCK_CHECK, 0, "clock_watch", f"it is ahead of the clock: {at}")
        for at in await store.clock_ahead(connection)
    ]
    if not await migrate.is_older(connection):
        found += await _compare(connection)
    return found[: where.limit]


async def _compare(connection: Connection) -> list[LedgerFinding]:
    major, wanted = shipped()
    there = {each for each in await store.lines(connection) if each.subject not in NOT_COMPARED}
    wanted = {each for each in wanted if each.subject not in NOT_COMPARED}
    if await shard.is_spread(connection):
        known = {each.subject for each in wanted}
        there = {each for each in there if each.kind in SPREAD and each.subject in known}
        wanted = {each for each in wanted if each.kind in SPREAD}
    if major != await store.major(connection):
        there = {each for each in there if each.kind not in SPELLED}
        wanted = {each for each in wanted if each.kind not in SPELLED}
    return differences(wanted, there)


def differences(wanted: set[CatalogLine], there: set[CatalogLine]) -> list[LedgerFinding]:
    """Name each object of which something is missing, changed or added."""
    missing, added = _by_object(wanted - there), _by_object(there - wanted)
    found = []
    for name in sorted(missing.keys() | added.keys()):
        says = [f"it lacks {each}" for each in missing[name]]
        says += [f"it has {each}" for each in added[name]]
        detail = "; ".join(says)
        shown = detail if len(detail) <= _SHOWN else detail[:_SHOWN] + " …"
        found.append(LedgerFinding(CHECK, 0, name, shown))
    return found


def _by_object(lines: Iterable[CatalogLine]) -> defaultdict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for each in sorted(lines):
        found[each.subject].append(f"{each.kind} {each.detail}")
    return found
