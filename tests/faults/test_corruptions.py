"""Whoever writes into the database is found out: a table of what a superuser may do to it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from conftest import Api, Clock
from postdate.proof.checker import FINDINGS, prove_on
from postdate.publisher.anchor import Anchorer, AnchorFile, Anchors, collect
from postdate.store.connection.database import Connection, Database
from postdate.store.embedded import Embedded
from support.corruption.catalog import TABLE
from support.corruption.tenant import Lived, live


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
    async with pool, pool.acquire() as vandal:
        yield Scene(lived, vandal, collect(file.lines()), await _words(lived, vandal))


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
    return {
        **lived.ids,
        "t": str(lived.tenant_id),
        "tenant": lived.api.tenant,
        "open_ffff": lived.ids["open"][:32] + "ffff",
        "event_of_moved": str(moved),
        "event_of_bob": str(bob),
        "transfer": str(transfer),
        "first_event": str(first),
        "end": str(last["position"] + last["events"]),
        "last_seal": str(last["position"]),
        "last_seal_event": str(last["event_id"]),
        "before_last": "\\x" + last["previous"].hex(),
    }


async def test_a_lived_in_tenant_proves(scene: Scene) -> None:
    proof = await prove_on(scene.vandal, scene.lived.tenant_id, scene.anchors)
    assert proof.findings == []


@pytest.mark.parametrize("name", TABLE)
async def test_it_is_named(scene: Scene, name: str) -> None:
    statement, finding, offender = TABLE[name]
    assert finding in FINDINGS
    transaction = scene.vandal.transaction()
    await transaction.start()
    try:
        await scene.vandal.execute(statement.format(**scene.words))
        proof = await prove_on(scene.vandal, scene.lived.tenant_id, scene.anchors)
    finally:
        await transaction.rollback()
    named = [(each.check, each.subject) for each in proof.findings]
    assert (finding, offender.format(**scene.words)) in named


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 71
