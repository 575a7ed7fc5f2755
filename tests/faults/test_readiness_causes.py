"""`/readyz` says within 5 s what can be served, reads and writes apart, and takes it back as soon.

Each cause is inflicted on a whole node. What `/readyz` says is compared with a GET and a POST.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import asyncpg
import pytest

from conftest import SECRET_KEY, Api, admin, app_dsn, eventually
from postdate.database.connection import opening
from postdate.database.embedded import Embedded
from postdate.http.listener import bind
from postdate.node.node import Node
from postdate.node.process import prepare, run
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from support.api_ledger import Ledger, key, open_ledger

TOLD_SECONDS = 5.0
WORKS_SECONDS = 1.5
"""What has no answer after this long does not work."""

RELOAD = "SELECT pg_reload_conf()"
ROLES = ["api", "worker", "settlement", "publisher"]
JOB = {"destination": {"type": "worker"}, "delay_seconds": 600}


@dataclass
class Running:
    """A node with all roles, and a ledger on it."""

    api: Api
    ledger: Ledger
    superuser: asyncpg.Connection
    job_id: str = ""

    async def with_new_key(self) -> "Running":
        """Ask with a key that no node remembers."""
        api = replace(self.api, key=await self.api.new_key())
        return replace(self, api=api, ledger=replace(self.ledger, api=api))

    async def told(self, query: str = "") -> tuple[int, dict[str, Any]]:
        async with self.api.session.get(f"{self.api.url}/readyz{query}") as answer:
            return answer.status, await answer.json()

    async def says(self, *, reads: bool, writes: bool, part: str | None) -> bool:
        """Say whether `/readyz` tells exactly this, by all three of its answers."""
        status, answer = await self.told()
        parts = {each["name"] for each in (*answer["degraded"], *answer["reasons"])}
        named = part in parts if part else not parts
        statuses = [(await self.told(f"?for={what}"))[0] == 200 for what in ("reads", "writes")]
        as_told = (answer["reads"], answer["writes"]) == (reads, writes)
        ready = (status == 200) == answer["ready"]
        return ready and named and as_told and statuses == [reads, writes]

    async def works(self, method: str, path: str, body: Any = None) -> bool:
        try:
            async with asyncio.timeout(WORKS_SECONDS):
                return (await self.api.call(method, path, body, headers=key())).status < 300
        except TimeoutError:
            return False

    async def reads(self) -> bool:
        paths = f"/jobs/{self.job_id}", "/accounts/alice", "/payments", "/events"
        return all([await self.works("GET", path) for path in paths])

    async def writes(self) -> bool:
        """Accept a job and a payment, take the job back, and put money into an account."""
        try:
            async with asyncio.timeout(WORKS_SECONDS):
                paid = await self.ledger.order(amount=1)
                job = await self.api.call("POST", "/jobs", JOB)
        except TimeoutError:
            return False
        made = (paid.status, job.status) == (201, 201)
        money = {"amount": 1, "reason": "readiness"}
        return (
            made
            and await self.works("POST", f"/jobs/{job.body['job_id']}/cancel")
            and await self.works("POST", "/accounts/alice/adjustments", money)
        )


@asynccontextmanager
async def started(dsn: str) -> AsyncIterator[Api]:
    """Run all roles of a node on these addresses."""
    database = await opening.connect(dsn, writers=12, readers=4)
    settings = ProcessSettings(admin_key="an-admin-key-of-the-tests", secret_key=SECRET_KEY)
    node = Node(settings=settings, database=database, roles=ROLES)
    await prepare(node)
    listener, stop = bind("127.0.0.1", 0), asyncio.Event()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    serving = asyncio.create_task(run(node, [listener], stop))
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(url, session, node, settings.admin_key, "default")
    finally:
        stop.set()
        await serving
        await database.close()


@pytest.fixture(scope="module")
async def running(server: Embedded, database_name: str) -> AsyncIterator[Running]:
    # The tests' server does without; a commit that waits for nothing waits for no standby.
    await admin(server, f"ALTER DATABASE {database_name} SET synchronous_commit = 'on'")
    superuser = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    async with started(app_dsn(server, database_name)) as api:
        await Tenants(api.node.database).create("readiness")
        key = (await Tenants(api.node.database).issue("readiness", ["admin"])).key
        mine = replace(api, key=key, tenant="readiness")
        found = Running(mine, await open_ledger(mine), superuser)
        made = await mine.call("POST", "/jobs", JOB)
        yield replace(found, job_id=made.body["job_id"])
    await superuser.close()


@dataclass(frozen=True)
class Cause:
    """What is done to the database, what undoes it, and what then must be told."""

    inflict: tuple[str, ...]
    cure: tuple[str, ...]
    part: str
    reads: bool = True
    writes: bool = False


def locked(table: str, part: str = "locks", mode: str = "ACCESS EXCLUSIVE") -> Cause:
    exclusive = mode == "ACCESS EXCLUSIVE"
    shown = table not in {"outbox", "idempotency", "tenant_halt", "halt_lock"}
    statements = "BEGIN", f"LOCK TABLE postdate.{table} IN {mode} MODE"
    return Cause(statements, ("ROLLBACK",), part, reads=not (exclusive and shown))


def configured(setting: str, part: str) -> Cause:
    name = setting.partition(" ")[0]
    change, undo = f"ALTER SYSTEM SET {setting}", f"ALTER SYSTEM RESET {name}"
    return Cause((change, RELOAD), (undo, RELOAD), part)


def revoked(right: str, table: str, role: str = "postdate_writer") -> Cause:
    on = f"{right} ON postdate.{table}"
    writer = role == "postdate_writer"
    take, give = (f"REVOKE {on} FROM {role}",), (f"GRANT {on} TO {role}",)
    return Cause(take, give, "rights", reads=writer, writes=not writer)


_EACH_PARTITION = """DO $$ DECLARE one name; BEGIN
    FOR one IN SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
                WHERE inhparent = 'postdate.job'::regclass
    LOOP EXECUTE format('{}', one); END LOOP; END $$"""

CAUSES = {
    "no standby": configured("synchronous_standby_names = '*'", "standby"),
    "read-only": configured("default_transaction_read_only = on", "database"),
    "no update of timers": revoked("UPDATE", "timer"),
    "no delete of timers": revoked("DELETE", "timer"),
    "no insert of payments": revoked("INSERT", "payment"),
    "no select of jobs": revoked("SELECT", "job", "postdate_reader"),
    "an index on timers": locked("timer", mode="SHARE"),
    **{f"{table} locked": locked(table) for table in ("timer", "outbox", "idempotency")},
    **{f"{table} locked": locked(table) for table in ("account", "job", "event")},
    "the partitions of jobs locked": Cause(
        ("BEGIN", _EACH_PARTITION.format("LOCK TABLE postdate.%I IN ACCESS EXCLUSIVE MODE")),
        ("ROLLBACK",),
        "locks",
        reads=False,
    ),
    "tenant_halt locked": locked("tenant_halt", "halts"),
    "halt_lock locked": locked("halt_lock", "halts", "EXCLUSIVE"),
    "api_key locked": locked("api_key", "keys"),
    "tenant locked": locked("tenant", "keys"),
}


@pytest.mark.parametrize("name", CAUSES)
async def test_what_can_be_served_is_told_within_seconds_and_so_is_the_cure(
    running: Running, name: str
) -> None:
    cause = CAUSES[name]
    whole: dict[str, Any] = {"reads": True, "writes": True, "part": None}
    broken: dict[str, Any] = {"reads": cause.reads, "writes": cause.writes, "part": cause.part}
    await eventually(lambda: running.says(**whole), TOLD_SECONDS)
    running = await running.with_new_key()
    try:
        for statement in cause.inflict:
            await running.superuser.execute(statement)
        await eventually(lambda: running.says(**broken), TOLD_SECONDS)
        assert await running.reads() == cause.reads
        if name != "no delete of timers":  # nothing that a client asks for deletes one
            assert await running.writes() == cause.writes
        status, answer = await running.told()
        assert (status, answer["ready"]) == ((503, False) if cause.part == "keys" else (200, True))
    finally:
        for statement in cause.cure:
            await running.superuser.execute(statement)
    await eventually(lambda: running.says(**whole), TOLD_SECONDS)
    assert await running.reads()
    await eventually(running.writes, TOLD_SECONDS)


async def test_reads_go_on_however_many_commits_wait_for_the_standby(running: Running) -> None:
    """More requests write than there are connections for writing, and the key is a new one."""
    api = running.api
    unused = await api.new_key("jobs:read")
    cause = CAUSES["no standby"]
    try:
        for statement in cause.inflict:
            await running.superuser.execute(statement)
        waiting = [
            asyncio.create_task(api.call("POST", "/accounts", {"account_id": f"a{n}"}))
            for n in range(20)
        ]
        await eventually(
            lambda: running.says(reads=True, writes=False, part="standby"), TOLD_SECONDS
        )
        await eventually(lambda: _full(api.node.database.writer), TOLD_SECONDS)
        assert (await api.call("GET", f"/jobs/{running.job_id}", key=unused)).status == 200
        assert await running.says(reads=True, writes=False, part="standby")
    finally:
        for statement in cause.cure:
            await running.superuser.execute(statement)
    assert {answer.status for answer in await asyncio.gather(*waiting)} == {201}


async def _full(pool: asyncpg.Pool) -> bool:
    return pool.get_size() == pool.get_max_size() and not pool.get_idle_size()
