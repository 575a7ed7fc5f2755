"""A node stays in rotation for what it can do, and says what it cannot."""

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import asyncpg
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from conftest import Api, admin
from postdate.api.health import Degraded, NotReady, ReadinessMeter, judge
from postdate.database import obstacle
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import StorageFullError
from postdate.database.embedded import Embedded
from postdate.database.obstacle import READ_ONLY
from postdate.http.login_throttle import LoginThrottle
from postdate.key.authentication.identity import Identities
from postdate.monitor.view.health import HealthCheck, faults_of
from postdate.node import http as edge
from postdate.node import settlement
from postdate.node.node import Node
from postdate.runtime.loop import Loop
from postdate.secret.secret import KEY_BYTES, Keyring
from support.api_ledger import open_ledger


@pytest.fixture
async def read_only(api: Api, server: Embedded, database_name: str) -> AsyncIterator[Api]:
    """An API whose database can be read, not written."""
    database = api.node.database
    pools = [each for each in (database.writer, database.reader, *database.asides) if each]
    await admin(server, f"ALTER DATABASE {database_name} SET default_transaction_read_only = on")
    for pool in pools:
        await pool.expire_connections()
    yield api
    await admin(server, f"ALTER DATABASE {database_name} RESET default_transaction_read_only")
    for pool in pools:
        await pool.expire_connections()


async def text(api: Api, path: str) -> tuple[int, str]:
    async with api.session.get(f"{api.url}{path}") as answer:
        return answer.status, await answer.text()


async def test_a_node_that_can_read_but_not_write_stays_in_rotation(
    api: Api, read_only: Api
) -> None:
    status, body = await text(read_only, "/readyz")
    assert status == 200
    assert READ_ONLY in body
    _, metrics = await text(read_only, "/metrics")
    assert 'postdate_degraded{part="database"} 1.0' in metrics
    assert (await read_only.call("GET", "/accounts")).status == 200
    job = {"destination": {"type": "worker"}}
    assert (await api.call("POST", "/jobs", job)).status == 503


async def test_a_node_with_another_secret_key_than_the_others_says_so(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = {"name": "a", "url": "https://example.com/"}
    assert (await api.call("POST", "/destinations", webhook)).status == 201
    assert not msgspec.json.decode((await text(api, "/readyz"))[1])["degraded"]
    [known] = api.node.outgoing.keyring.ids
    for other in (Keyring([bytes(KEY_BYTES)]), Keyring([])):
        lacking = replace(api.node.outgoing, keyring=other)
        monkeypatch.setattr(api.node, "_outgoing", lacking)
        status, body = await text(api, "/readyz")
        [told] = msgspec.json.decode(body)["degraded"]
        assert (status, told["name"]) == (200, "secrets")
        assert f"{known:08x}" in told["reason"]
        assert "POSTDATE_SECRET_KEY" in told["reason"]


async def stopped(_: int) -> int:
    return 0


@pytest.mark.parametrize(("vital", "ready"), [(True, False), (False, True)])
async def test_only_a_loop_that_others_need_takes_its_node_out_of_rotation(
    api: Api, monkeypatch: pytest.MonkeyPatch, *, vital: bool, ready: bool
) -> None:
    loop = Loop("rules", stopped, limit=1, vital=vital)
    loop._alive_at -= 3600
    monkeypatch.setattr(api.node, "loops", [loop])
    status, body = await text(api, "/readyz")
    found = msgspec.json.decode(body)
    assert (status, found["ready"]) == (200 if ready else 503, ready)
    [told] = found["degraded" if ready else "reasons"]
    assert told["name"] == "rules"


async def test_no_node_is_out_of_rotation_because_of_what_tenants_let_it_count(api: Api) -> None:
    node = Node(settings=api.node.settings, database=api.node.database, roles=["settlement"])
    edge.services(node, Identities(node.database, LoginThrottle(free=10**9)))
    loops = [*node.loops, *settlement.loops(node)]
    assert {each.name for each in loops if not each.vital} == {"rules", "money", "foresight"}
    await node.close()


async def test_a_settlement_that_was_stopped_keeps_nobody_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop("settlement", stopped, limit=1, blocked=lambda: "maintenance")
    monkeypatch.setattr(api.node, "loops", [loop])
    answer = judge(await edge.not_ready(api.node), [])
    assert answer.ready
    assert answer.degraded == [Degraded("settlement", "maintenance")]
    assert (await (await open_ledger(api)).order()).status == 201


async def test_a_loop_that_stands_still_by_itself_takes_the_node_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop("worker", stopped, limit=1)
    monkeypatch.setattr(loop, "_alive_at", loop._alive_at - 3600)
    monkeypatch.setattr(api.node, "loops", [loop])
    answer = judge(await edge.not_ready(api.node), [])
    assert [reason.name for reason in answer.reasons] == ["worker"]


async def test_no_database_at_all_takes_the_node_out(database: Database) -> None:
    class Gone:
        def acquire(self, *, timeout: float) -> None:
            raise ConnectionRefusedError(timeout)

    gone = Database(Gone(), database.reader)  # type: ignore[arg-type]
    [amiss] = await HealthCheck(gone).faults()
    assert (amiss.name, amiss.reads, amiss.writes, amiss.serves) == (
        "database",
        False,
        False,
        False,
    )


def test_what_is_degraded_is_forgotten_when_it_is_well_again() -> None:
    registry = CollectorRegistry()
    meter = ReadinessMeter(registry)
    part = {"part": f"part-{uuid4()}"}
    meter.answered(judge([Degraded(part["part"], "why")], []))
    assert registry.get_sample_value("postdate_degraded", part) == 1
    assert registry.get_sample_value("postdate_ready") == 1
    meter.answered(judge([NotReady("server", "draining")], []))
    assert registry.get_sample_value("postdate_degraded", part) is None
    assert registry.get_sample_value("postdate_ready") == 0


async def test_a_disk_that_a_write_found_full_counts_as_full_until_a_table_can_grow(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = api.node

    async def no_room(_: Connection) -> bool:
        return False

    with pytest.raises(StorageFullError):
        async with node.database.write():
            raise StorageFullError
    for _ in range(2):
        answer = msgspec.json.decode((await text(api, "/readyz"))[1])
        assert [each["name"] for each in answer["degraded"]] == ["disk"]
        assert (answer["reads"], answer["writes"]) == (True, False)
        assert (await text(api, "/readyz?for=writes"))[0] == 503
        with monkeypatch.context() as full:
            full.setattr(obstacle, "has_room", no_room)
            await node.heartbeat.run_once()
    await node.heartbeat.run_once()
    assert (await text(api, "/readyz?for=writes"))[0] == 200


async def test_the_rights_that_are_watched_are_those_that_the_schema_grants(
    database: Database,
) -> None:
    granted = await database.writer.fetch(
        """SELECT c.relname, array_agg(a.privilege_type) AS rights
             FROM pg_class c, aclexplode(c.relacl) a
            WHERE a.grantee = 'postdate_writer'::regrole AND c.relname = ANY ($1)
            GROUP BY c.relname""",
        list(obstacle.WRITTEN),
    )
    found = {row["relname"]: set(row["rights"]) for row in granted}
    assert found == {table: set(rights) for table, rights in obstacle.WRITTEN.items()}


TABLES = """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE n.nspname = 'postdate' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"""


async def test_a_lock_on_any_table_is_named_with_what_it_stops(
    database: Database, server: Embedded, database_name: str
) -> None:
    """Locked, `event` stopped twelve operations while reads and writes were said to go on."""
    superuser = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    try:
        tables = [row[0] for row in await superuser.fetch(TABLES)]
        async with superuser.transaction():
            await superuser.execute(f"LOCK TABLE {', '.join(f'postdate.{t}' for t in tables)}")
            async with database.probing(5.0) as connection:
                found = await obstacle.list_all(connection, 5.0)
    finally:
        await superuser.close()
    assert {each.subject for each in found if each.kind == "lock"} == set(tables)
    for each in found:
        faults = faults_of([each])
        stopped = each.subject not in obstacle.UNASKED and each.kind == "lock"
        assert [fault.writes for fault in faults] == [not stopped]
        assert faults[0].reads == (not stopped or each.subject in obstacle.UNREAD)


async def test_the_reader_may_read_what_reads_need(database: Database) -> None:
    async with database.connection() as connection:
        found = await obstacle.list_all(connection, 5.0)
        tables = {row[0] for row in await connection.fetch(TABLES)}
    assert [each for each in found if each.kind == "denied"] == []
    known = {*obstacle.SHOWN, *obstacle.WRITTEN, *obstacle.ASKED, *obstacle.UNREAD}
    assert known | obstacle.UNASKED <= tables
    assert not known & obstacle.UNASKED


async def test_an_unknown_question_is_refused(api: Api) -> None:
    status, body = await text(api, "/readyz?for=money")
    problem = msgspec.json.decode(body)
    assert (status, problem["code"], problem["field"]) == (422, "invalid_field", "for")
    assert problem["detail"] == "`for` is `reads` or `writes`."
