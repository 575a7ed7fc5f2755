"""Whoever writes into the database is found out: a table of what a superuser may do to it."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID

import asyncpg
import pytest
from msgspec.structs import replace

from conftest import Api, Clock
from postdate.core.ids import BUCKETS, MAX_ID, bucket_of, new_id
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.pooled import PooledConnection
from postdate.database.embedded import Embedded
from postdate.intake.store import KeyScope, key_of
from postdate.ledger.prove import attached_range
from postdate.proof import prove as store
from postdate.proof.prove import LedgerFinding
from postdate.prover.checker import FINDINGS, prove_on
from postdate.prover.round import IdWindow, prove_chains, prove_tables
from postdate.publisher.anchor import Anchorer, AnchorFile, Anchors, collect
from support.corruption.catalog import TABLE
from support.corruption.tenant import Lived, live

SYSTEM: Final = 0
"""Whose findings tell of no tenant; the tests' own settings are among them."""

STEP: Final = 16
"""How many buckets at a time: enough that what lies in two of them is in two steps."""

MAX_GROUP: Final = 10
"""How many are tried together: a proof gives that many findings of a kind."""

_TOUCHED: Final = re.compile(r"(?<!\{)\{\w+\}|'[a-z_]+'")


@dataclass
class Scene:
    """The lived-in tenant, what was anchored, and somebody who may write anything."""

    lived: Lived
    vandal: Connection
    anchors: Mapping[int, Anchors]
    words: Mapping[str, str]


@pytest.fixture(scope="module")
async def scene(
    edge_server: Api,
    database: Database,
    server: Embedded,
    database_name: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Scene]:
    lived = await live(edge_server, Clock(database))
    file = AnchorFile(Path(tmp_path_factory.mktemp("anchor")) / "anchor.jsonl")
    await Anchorer(database, file).run_once()
    powers = {"search_path": "postdate", "session_replication_role": "replica"}
    dsn = server.credentials.superuser_dsn(database_name)
    pool = asyncpg.create_pool(dsn, min_size=1, max_size=1, server_settings=powers)
    async with pool, pool.acquire() as lent:
        vandal = PooledConnection(lent)
        scene = Scene(lived, vandal, collect(file.lines()), await _words(lived, vandal))
        async with vandal.transaction():
            await _round(scene)  # what is proved now must not get shorter
        yield scene


async def _words(lived: Lived, vandal: Connection) -> dict[str, str]:
    """Give what the statements of the table may name."""
    told = "SELECT event_id FROM event WHERE tenant_id = $1 AND type = $2 AND data ->> $3 = $4"
    moved = await vandal.fetchval(
        "SELECT event_id FROM event WHERE subject = $1 AND type = 'payment.rescheduled'",
        lived.ids["moved"],
    )
    transfer = await vandal.fetchval(
        "SELECT transfer_id FROM outcome WHERE subject = $1", lived.ids["settled"]
    )
    bob = await vandal.fetchval(told, lived.tenant_id, "account.created", "account_id", "bob")
    last = await vandal.fetchrow(
        "SELECT position, cardinality(kinds) AS events, previous, "
        "coalesce(events[1], subjects[1]) AS event_id "
        "FROM seal WHERE tenant_id = $1 ORDER BY position DESC LIMIT 1",
        lived.tenant_id,
    )
    first = await vandal.fetchval(
        "SELECT event_id FROM event WHERE tenant_id = $1 ORDER BY event_id LIMIT 1",
        lived.tenant_id,
    )
    assert last is not None
    adjustment = await vandal.fetchval(
        "SELECT transfer_id FROM entry WHERE tenant_id = $1 AND account_id = 'eve'",
        lived.tenant_id,
    )
    old_ms = lived.database.unix_ms() - 20 * 86_400_000
    settled = key_of(lived.tenant_id, KeyScope.PAYMENT, "key-of-settled")
    return {
        **lived.ids,
        "adjustment": str(adjustment),
        "old": str(new_id(bucket_of(UUID(lived.ids["open"])), old_ms)),
        "t": str(lived.tenant_id),
        "tenant": lived.api.tenant,
        "key_of_settled": str(settled.hash),
        "open_ffff": lived.ids["open"][:32] + "ffff",
        "change_set_ffff": lived.ids["change_set"][:32] + "ffff",
        "event_of_moved": str(moved),
        "event_of_bob": str(bob),
        "transfer": str(transfer),
        "first_event": str(first),
        "end": str(last["position"] + last["events"]),
        "last_seal": str(last["position"]),
        "last_seal_event": str(last["event_id"]),
        "before_last_seal": str(last["position"] - 1),
        "before_last": "\\x" + last["previous"].hex(),
    }


async def _round(scene: Scene, step: int = STEP) -> list[LedgerFinding]:
    """Make a whole round, as the prover does, but with more than one bucket at a time."""
    found: list[LedgerFinding] = []
    for first in range(0, BUCKETS, step):
        buckets = range(first, first + step)
        where = replace(await attached_range(scene.vandal, buckets=buckets), limit=100)
        found += await prove_tables(scene.vandal, where, [IdWindow(UUID(int=0), MAX_ID)])
        await store.remember_accounts(scene.vandal, buckets, where.floor)
        found += (await prove_chains(scene.vandal, buckets, lambda events: events))[1]
    return [each for each in found if each.tenant_id in {scene.lived.tenant_id, SYSTEM}]


def _groups() -> dict[str, list[str]]:
    """Put corruptions together that touch nothing in common, so that each is found by itself."""
    groups: list[tuple[set[str], list[str]]] = []
    for name, row in TABLE.items():
        touched = set(_TOUCHED.findall(row.statement + " '" + row.offender + "'")) - {"{t}"}
        room = [g for g in groups if g[0] and len(g[1]) < MAX_GROUP and not row.alone]
        fit = [group for group in room if group[0].isdisjoint(touched)]
        if not fit:
            fit = [(set(), [])]
            groups += fit
        if not row.alone:
            fit[0][0].update(touched)
        fit[0][1].append(name)
    return {names[0]: names for _, names in groups}


GROUPS = _groups()


async def test_a_lived_in_tenant_proves(scene: Scene) -> None:
    async with scene.vandal.transaction():
        # The vandal's own session is without triggers, which a proof names.
        await scene.vandal.execute("SET LOCAL session_replication_role = origin")
        proof = await prove_on(scene.vandal, scene.lived.tenant_id, scene.anchors)
        found = await _round(scene)
    assert proof.findings == []
    assert [each for each in found if each.tenant_id != SYSTEM] == []


@pytest.mark.parametrize("group", GROUPS)
async def test_each_corruption_of_a_group_is_named(scene: Scene, group: str) -> None:
    assert await _unseen(scene, GROUPS[group], STEP) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", TABLE)
async def test_a_corruption_is_named_alone_and_bucket_by_bucket(scene: Scene, name: str) -> None:
    assert await _unseen(scene, [name], 1) == []


async def _unseen(scene: Scene, names: Sequence[str], step: int) -> list[str]:
    """Write what these corruptions write, and say which of them is not named, and by what."""
    transaction = scene.vandal.transaction()
    await transaction.start()
    try:
        for name in names:
            await scene.vandal.execute(TABLE[name].statement.format(**scene.words))
        proof = await prove_on(scene.vandal, scene.lived.tenant_id, scene.anchors)
        rounds = await _round(scene, step)
    finally:
        await transaction.rollback()
    by_proof = {(each.check, each.subject) for each in proof.findings}
    by_rounds = {(each.check, each.subject) for each in rounds}
    unseen = []
    for name in names:
        row = TABLE[name]
        assert row.finding in FINDINGS
        expected = row.finding, row.offender
        if _filled(expected, scene) not in by_proof:
            unseen.append(f"prove: {name}")
        if _filled(row.in_rounds or expected, scene) not in by_rounds:
            unseen.append(f"rounds: {name}")
    return unseen


def _filled(expected: tuple[str, str], scene: Scene) -> tuple[str, str]:
    return expected[0], expected[1].format(**scene.words)


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 71
