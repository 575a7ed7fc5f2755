"""Run a plan: start everything, live, disturb, calm down, look at what is left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from postdate.database.connection.error import DatabaseError
from postdate.database.embedded import Embedded
from postdate.schema import migrate
from postdate_lab.chaos import crowd, guest, life, report, side_store, small_disk, wrong_clock
from postdate_lab.chaos import database as store
from postdate_lab.chaos.actor import ChaosActor
from postdate_lab.chaos.broker import Broker, brokering
from postdate_lab.chaos.bulk import ChaosCrowd
from postdate_lab.chaos.client import RecordingClient
from postdate_lab.chaos.collect import RunFacts, collect, evidence_of
from postdate_lab.chaos.held import HOLD_SECONDS
from postdate_lab.chaos.history import RUN, Recorder
from postdate_lab.chaos.nemesis import Nemesis
from postdate_lab.chaos.plan import ChaosPlan
from postdate_lab.chaos.process import Process, command, free_port, holdable
from postdate_lab.chaos.proxy import proxied, through
from postdate_lab.chaos.puller import Puller
from postdate_lab.chaos.readiness import WATCHED, ReadinessWatcher
from postdate_lab.chaos.receiver import Receivers, receiving
from postdate_lab.chaos.report import ChaosReport
from postdate_lab.chaos.side_fault import Surroundings

READY_SECONDS: Final = 90.0
AT_ONCE: Final = 64
"""The most operations under way; beyond it the generator waits."""

SLOTS_OF_PROCESS: Final = 18
SPARE_SLOTS: Final = 40
"""Connections of our own and of commands: without room for all, requests fail for no fault."""

IDLE_AT_ONCE: Final = 16
PROBES: Final = 5
POLL_SECONDS: Final = 0.5
INTERNAL: Final = "internal-token-of-the-run"
_OK: Final = 200


class RunSetup(msgspec.Struct, kw_only=True):
    """Everything that runs."""

    plan: ChaosPlan
    home: Path
    record: Recorder
    around: Surroundings
    broker: Broker | None
    receivers: Receivers
    session: aiohttp.ClientSession
    processes: list[Process]
    urls: list[str]
    env: dict[str, str]

    @property
    def server(self) -> Embedded:
        """Return the database's server."""
        return self.around.server


async def run(plan: ChaosPlan, home: Path) -> ChaosReport:
    """Run a plan and leave history and reports in a directory."""
    async with _setup(plan, home) as setup:
        facts = await _live(setup, await _people(setup))
        await asyncio.gather(*(process.end() for process in setup.processes))
        await collect(home, facts, setup.server, setup.broker, setup.env)
    return conclude(home)


def conclude(home: Path) -> ChaosReport:
    """Judge what a run has left, now or later, and write the reports."""
    plan, parts = evidence_of(home)
    found, summary = report.judge(plan, parts)
    drawn = report.picture(summary)
    (home / "report.md").write_text(report.markdown(found))
    (home / "report.html").write_text(report.html(found, drawn))
    (home / "timeline.svg").write_text(drawn)
    (home / "report.json").write_bytes(msgspec.json.encode(found))
    return found


@asynccontextmanager
async def _setup(plan: ChaosPlan, home: Path) -> AsyncIterator[RunSetup]:
    async with AsyncExitStack() as stack:
        record = Recorder(home / "history")
        stack.callback(record.close)
        processes: list[Process] = []
        around = await stack.enter_async_context(_surrounded(plan, home, processes))
        broker = await stack.enter_async_context(brokering(home))
        receivers = await stack.enter_async_context(receiving(record))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        login = around.server.credentials.login
        setup = RunSetup(
            plan=plan, home=home, record=record, around=around, broker=broker,
            receivers=receivers, session=session, processes=processes, urls=[],
            env=_environment(home, login.app_dsn(), login.owner_dsn()),
        )  # fmt: skip
        for number, role in enumerate(plan.roles):
            process = await _process(setup, role, number)
            stack.push_async_callback(process.end)
        await _until_ready(setup)
        yield setup


@asynccontextmanager
async def _surrounded(
    plan: ChaosPlan, home: Path, processes: list[Process]
) -> AsyncIterator[Surroundings]:
    """Start the database with the clock, the disk and the proxy that can be disturbed."""
    slots = SPARE_SLOTS + SLOTS_OF_PROCESS * len(list(plan.roles))
    async with AsyncExitStack() as stack:
        clock = stack.enter_context(wrong_clock.below(home, wanted="clock" in plan.faults))
        place = home / "disk"
        disk = stack.enter_context(small_disk.mounted(place, plan.disk_mb))
        server = Embedded(place / "database", settings={"max_connections": str(slots)})
        await server.start()
        stack.push_async_callback(server.stop)
        login = server.credentials.login
        await migrate.migrate(login.owner_dsn())
        between = home / "proxy"
        between.mkdir()
        proxy = await stack.enter_async_context(
            proxied(between, Path(login.host) / ".s.PGSQL.5432")
        )
        around = Surroundings(
            processes=processes, server=server, proxy=proxy, clock=clock, disk=disk,
            watching=asyncio.create_task(server.watch()),
        )  # fmt: skip
        stack.callback(around.unwatch)
        yield around


def _environment(home: Path, app: str, owner: str) -> dict[str, str]:
    return {
        "POSTDATE_DATABASE_URL": app,
        "POSTDATE_OWNER_DATABASE_URL": owner,
        "POSTDATE_DATA_DIR": str(home / "data"),
        "POSTDATE_ADMIN_KEY": "the-admin-key-of-the-run",
        "POSTDATE_INTERNAL_TOKEN": INTERNAL,
        "POSTDATE_SECRET_KEY": "5e" * 32,
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "POSTDATE_DRAIN_SECONDS": "3",
        HOLD_SECONDS: "2.5",
    }


async def _process(setup: RunSetup, role: str, number: int) -> Process:
    """Start one process; every other one reaches the database through the proxy."""
    env = dict(setup.env)
    if number % 2:
        host = setup.server.credentials.login.host
        for name in ("POSTDATE_DATABASE_URL", "POSTDATE_OWNER_DATABASE_URL"):
            env[name] = through(env[name], host, setup.home / "proxy")
    if role == "api":
        port = free_port()
        env["POSTDATE_PORT"] = str(port)
        setup.urls.append(f"http://127.0.0.1:{port}")
    log = setup.home / "disk" / f"{number}-{role}.log"
    process = Process(f"{role}-{number}", holdable("serve", "--role", role), log, env)
    setup.processes.append(process)
    await process.keep()
    return process


async def _until_ready(setup: RunSetup) -> None:
    async with asyncio.timeout(READY_SECONDS):
        for url in setup.urls:
            while not await _is_ready(setup.session, url):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/readyz") as response:
            return response.status == _OK
    except (aiohttp.ClientError, OSError):
        return False


class _People(msgspec.Struct, frozen=True):
    """Everybody who uses the system during a run."""

    actor: ChaosActor
    pullers: list[Puller]
    bulk: ChaosCrowd | None
    watchers: list[ReadinessWatcher]


async def _people(setup: RunSetup) -> _People:
    """Make the tenants, their keys and everything they need."""
    plan, record = setup.plan, setup.record
    clients = {
        name: RecordingClient(setup.session, setup.urls, record, name) for name in life.TENANTS
    }
    approvers = {name: await _approver(setup, client) for name, client in clients.items()}
    lease = str(plan.lease_seconds)
    await command(setup.env, "setting", "set", "worker.lease_seconds", lease, "--json")
    actor = ChaosActor(clients, approvers, setup.receivers, has_broker=setup.broker is not None)
    await actor.prepare()
    crowding = [
        RecordingClient(setup.session, setup.urls, record, name)
        for name in crowd.tenants(plan.bulk, plan.seconds)
    ]
    for client in crowding:
        await _make_tenant(setup, client)
    if setup.broker is not None:
        await actor.add_broker(setup.broker.url, [*clients.values(), *crowding])
    bulk = None
    if crowding:
        bulk = ChaosCrowd(plan.seed, plan.bulk, crowding, actor, partial(_open, setup))
        await bulk.prepare()
    await _make_neighbours(setup, next(iter(clients)))
    pullers = [Puller(client, plan.seed) for client in clients.values()]
    return _People(actor, pullers, bulk, await _watchers(setup))


async def _make_neighbours(setup: RunSetup, tenant: str) -> None:
    """Make the login that misbehaves, and the tenants that do nothing."""
    superuser = await store.connect(setup.server.credentials.superuser_dsn("postdate"))
    await side_store.make_guest(superuser, guest.NAME, guest.PASSWORD)
    await superuser.close()
    await command(setup.env, "tenant", "bind-role", guest.NAME, "--tenant", tenant, "--json")
    room = asyncio.Semaphore(IDLE_AT_ONCE)

    async def idle(number: int) -> None:
        async with room:
            await _make_tenant(setup, RecordingClient(setup.session, setup.urls, setup.record,
                                                      f"idle{number}"))  # fmt: skip

    await asyncio.gather(*map(idle, range(setup.plan.idle_tenants)))


async def _watchers(setup: RunSetup) -> list[ReadinessWatcher]:
    """Make a tenant whose reads and writes are compared with what `/readyz` says."""
    client = RecordingClient(setup.session, setup.urls, setup.record, WATCHED)
    await _make_tenant(setup, client)
    hook = setup.receivers.url("obey", WATCHED)
    return [ReadinessWatcher(setup.session, url, client.key, hook, setup.record)
            for url in setup.urls]  # fmt: skip


async def _make_tenant(setup: RunSetup, client: RecordingClient) -> None:
    """Make a tenant with its first key."""
    async with setup.session.post(
        f"{setup.urls[0]}/api/v1/internal/tenants", json={"name": client.tenant},
        headers={"X-Internal-Auth": INTERNAL},
    ) as response:  # fmt: skip
        client.key = (await response.json())["key"]


async def _approver(setup: RunSetup, client: RecordingClient) -> str:
    """Make a tenant, and a second person's key, which approves."""
    await _make_tenant(setup, client)
    made = await command(
        setup.env, "key", "create", "--tenant", client.tenant, "--scope", "payments:approve",
        "--scope", "payments:read", "--json",
    )  # fmt: skip
    return str(made["key"])


async def _live(setup: RunSetup, people: _People) -> RunFacts:
    """Live and disturb; say how long it took to calm down, and how late new jobs then were."""
    plan, record, actor, bulk = setup.plan, setup.record, people.actor, people.bulk
    beside = [asyncio.create_task(puller.run()) for puller in people.pullers]
    if bulk is not None:
        beside.append(asyncio.create_task(bulk.watch()))
    watching = [asyncio.create_task(watcher.run()) for watcher in people.watchers]
    nemesis = Nemesis(record, setup.around, setup.broker)
    begin = record.now()
    faults = [msgspec.structs.replace(f, at=f.at + begin) for f in plan.fault_list()]
    async with asyncio.TaskGroup() as group:
        group.create_task(_generate(plan, actor, record, begin + plan.seconds))
        group.create_task(nemesis.run(faults))
        if bulk is not None:
            until = asyncio.get_running_loop().time() + plan.seconds
            group.create_task(bulk.run(until))
    calm = record.now()
    record(RUN, "info", "calm")
    # They send jobs of their own, which must end with the others.
    for each in watching:
        each.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await actor.lift()
    await actor.stop_schedules()
    left = await _count_left(setup)
    drained = await _drain(setup, actor, plan.calm_seconds(left))
    late = await _probe(setup, actor)
    for each in beside:
        each.cancel()
    if bulk is not None:
        await bulk.stop()
    await asyncio.gather(*beside, return_exceptions=True)
    seconds = None if drained is None else drained - calm
    return RunFacts(plan=plan, left=left, drained_seconds=seconds, probe_seconds=late)


async def _generate(plan: ChaosPlan, actor: ChaosActor, record: Recorder, until: float) -> None:
    """Begin operations at the plan's rate until its time is over."""
    room = asyncio.Semaphore(AT_ONCE)
    began = record.now()
    async with asyncio.TaskGroup() as group:
        for operation in life.operations(plan.seed):
            due = began + operation.n / plan.rate
            if max(due, record.now()) >= until:
                break
            await asyncio.sleep(max(0.0, due - record.now()))
            await room.acquire()
            acting = group.create_task(actor.act(operation))
            acting.add_done_callback(lambda _: room.release())


async def _count_left(setup: RunSetup) -> int:
    """Count what is open as soon as the database answers."""
    with suppress(TimeoutError):
        async with asyncio.timeout(setup.plan.drain_seconds):
            while True:
                with suppress(DatabaseError, OSError):
                    return sum((await _open(setup)).values())
                await asyncio.sleep(POLL_SECONDS)
    return 0


async def _drain(setup: RunSetup, actor: ChaosActor, seconds: float) -> float | None:
    """Wait until nothing is open; say when that was, or None when it takes too long."""
    try:
        async with asyncio.timeout(seconds):
            while await _is_busy(setup):
                await actor.decide_everything()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return None
    return setup.record.now()


async def _is_busy(setup: RunSetup) -> bool:
    try:
        return bool(await _open(setup))
    except (DatabaseError, OSError):
        return True


async def _open(setup: RunSetup) -> dict[str, int]:
    connection = await store.connect(setup.server.credentials.superuser_dsn("postdate"))
    try:
        return await store.count_open(connection)
    finally:
        await connection.close()


async def _probe(setup: RunSetup, actor: ChaosActor) -> list[float]:
    """Send a few jobs one after the other, and say how late each arrived."""
    late = []
    for number in range(PROBES):
        sent = setup.record.now()
        job_id = await actor.probe(number)
        arrived = await _arrival(setup, job_id) if job_id else None
        if arrived is not None:
            late.append(arrived - sent)
    return late


async def _arrival(setup: RunSetup, job_id: str) -> float | None:
    until = setup.record.now() + 30
    while setup.record.now() < until:
        for line in reversed(setup.record.recent):
            if line.op == "arrival" and line.data["id"] == job_id:
                return line.at
        await asyncio.sleep(0.02)
    return None
