"""Run a plan: start everything, live, disturb, calm down, look at what is left."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from postdate.chaos import database as store
from postdate.chaos import life, report
from postdate.chaos.actor import Actor
from postdate.chaos.broker import Broker, brokering
from postdate.chaos.client import RecordingClient
from postdate.chaos.evidence import Evidence
from postdate.chaos.history import Recorder
from postdate.chaos.nemesis import Nemesis
from postdate.chaos.plan import ChaosPlan
from postdate.chaos.process import Process, free_port, postdate
from postdate.chaos.proxy import Proxy, proxied, through
from postdate.chaos.puller import Puller
from postdate.chaos.receiver import Receivers, receiving
from postdate.chaos.report import ChaosReport
from postdate.store import migrate
from postdate.store.connection.error import DatabaseError
from postdate.store.embedded import Embedded

READY_SECONDS: Final = 90.0
AT_ONCE: Final = 64
"""The most operations under way; beyond it the generator waits."""

SLOTS_OF_PROCESS: Final = 18
SPARE_SLOTS: Final = 40
"""Connections of our own and of commands: without room for all, requests fail for no fault."""

PROBES: Final = 5
POLL_SECONDS: Final = 0.5
INTERNAL: Final = "internal-token-of-the-run"
_OK: Final = 200


class RunSetup(msgspec.Struct, kw_only=True):
    """Everything that runs."""

    plan: ChaosPlan
    home: Path
    record: Recorder
    server: Embedded
    proxy: Proxy
    broker: Broker | None
    receivers: Receivers
    session: aiohttp.ClientSession
    processes: list[Process]
    urls: list[str]
    env: dict[str, str]


async def run(plan: ChaosPlan, home: Path) -> ChaosReport:
    """Run a plan and leave history and reports in a directory."""
    async with _setup(plan, home) as setup:
        actor, pullers = await _people(setup)
        seen = await _live(setup, actor, pullers)
    (home / "evidence.json").write_bytes(msgspec.json.encode((plan, seen)))
    return conclude(home)


def conclude(home: Path) -> ChaosReport:
    """Judge what a run has left, now or later, and write the reports."""
    plan, seen = msgspec.json.decode(
        (home / "evidence.json").read_bytes(), type=tuple[ChaosPlan, Evidence]
    )
    found = report.judge(plan, seen)
    drawn = report.picture(seen)
    (home / "report.md").write_text(report.markdown(found))
    (home / "report.html").write_text(report.html(found, drawn))
    (home / "timeline.svg").write_text(drawn)
    (home / "report.json").write_bytes(msgspec.json.encode(found))
    return found


@asynccontextmanager
async def _setup(plan: ChaosPlan, home: Path) -> AsyncIterator[RunSetup]:
    async with AsyncExitStack() as stack:
        record = Recorder(home / "history.jsonl")
        stack.callback(record.close)
        slots = SPARE_SLOTS + SLOTS_OF_PROCESS * len(list(plan.roles))
        server = Embedded(home / "database", settings={"max_connections": str(slots)})
        await server.start()
        stack.push_async_callback(server.stop)
        login = server.credentials.login
        await migrate.migrate(login.owner_dsn())
        watching = asyncio.create_task(server.watch())
        stack.callback(watching.cancel)
        between = home / "proxy"
        between.mkdir()
        directory = Path(server.credentials.login.host)
        proxy = await stack.enter_async_context(proxied(between, directory / ".s.PGSQL.5432"))
        broker = await stack.enter_async_context(brokering(home))
        receivers = await stack.enter_async_context(receiving(record))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        setup = RunSetup(
            plan=plan, home=home, record=record, server=server, proxy=proxy, broker=broker,
            receivers=receivers, session=session, processes=[], urls=[],
            env=_environment(home, login.app_dsn(), login.owner_dsn()),
        )  # fmt: skip
        for number, role in enumerate(plan.roles):
            process = await _process(setup, role, number)
            stack.push_async_callback(process.end)
        await _until_ready(setup)
        yield setup


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
    log = setup.home / f"{number}-{role}.log"
    process = Process(f"{role}-{number}", postdate("serve", "--role", role), log, env)
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


async def _people(setup: RunSetup) -> tuple[Actor, list[Puller]]:
    """Make the tenants, their keys and everything they need."""
    clients = {
        name: RecordingClient(setup.session, setup.urls, setup.record, name)
        for name in life.TENANTS
    }
    approvers = dict(
        zip(clients, await asyncio.gather(*(_tenant(setup, each) for each in clients.values())),
            strict=True)
    )  # fmt: skip
    lease = str(setup.plan.lease_seconds)
    await _command(setup, "setting", "set", "worker.lease_seconds", lease, "--json")
    actor = Actor(clients, approvers, setup.receivers, has_broker=setup.broker is not None)
    await actor.prepare()
    if setup.broker is not None:
        await actor.add_broker(setup.broker.url)
    return actor, [Puller(client, setup.plan.seed) for client in clients.values()]


async def _tenant(setup: RunSetup, client: RecordingClient) -> str:
    """Make a tenant with its first key, and a second person's key, which approves."""
    async with setup.session.post(
        f"{setup.urls[0]}/api/v1/internal/tenants", json={"name": client.tenant},
        headers={"X-Internal-Auth": INTERNAL},
    ) as response:  # fmt: skip
        client.key = (await response.json())["key"]
    made = await _command(
        setup, "key", "create", "--tenant", client.tenant, "--scope", "payments:approve",
        "--scope", "payments:read", "--json",
    )  # fmt: skip
    return str(made["key"])


async def _command(setup: RunSetup, *words: str) -> Any:
    """Run one of our commands and decode what it prints; a finding is no failure."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    process = await asyncio.create_subprocess_exec(
        *postdate(*words), env=others | setup.env,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    try:
        return msgspec.json.decode(out)
    except msgspec.DecodeError as decoding:
        raise RuntimeError(f"{' '.join(words)}: {error.decode()}") from decoding


async def _live(setup: RunSetup, actor: Actor, pullers: Sequence[Puller]) -> Evidence:
    plan, record = setup.plan, setup.record
    pulling = [asyncio.create_task(puller.run()) for puller in pullers]
    nemesis = Nemesis(record, setup.processes, setup.server, setup.proxy, setup.broker)
    begin = record.now()
    faults = [msgspec.structs.replace(f, at=f.at + begin) for f in plan.fault_list()]
    async with asyncio.TaskGroup() as group:
        group.create_task(_generate(plan, actor, record, begin + plan.seconds))
        group.create_task(nemesis.run(faults))
    calm = record.now()
    record("run", "info", "calm")
    await actor.lift()
    await actor.stop_schedules()
    drained = await _drain(setup, actor)
    late = await _probe(setup, actor)
    for each in pulling:
        each.cancel()
    await asyncio.gather(*pulling, return_exceptions=True)
    return await _evidence(setup, None if drained is None else drained - calm, late)


async def _generate(plan: ChaosPlan, actor: Actor, record: Recorder, until: float) -> None:
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


async def _drain(setup: RunSetup, actor: Actor) -> float | None:
    """Wait until nothing is open; say when that was, or None when it takes too long."""
    try:
        async with asyncio.timeout(setup.plan.drain_seconds):
            while await _open(setup):
                await actor.decide_everything()
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return None
    return setup.record.now()


async def _open(setup: RunSetup) -> int:
    try:
        connection = await store.connect(setup.server.credentials.superuser_dsn("postdate"))
        try:
            return await store.count_open(connection)
        finally:
            await connection.close()
    except DatabaseError:
        return -1


async def _probe(setup: RunSetup, actor: Actor) -> list[float]:
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
        for line in reversed(setup.record.lines[-200:]):
            if line.op == "arrival" and line.data["id"] == job_id:
                return line.at
        await asyncio.sleep(0.02)
    return None


async def _evidence(setup: RunSetup, drained: float | None, late: list[float]) -> Evidence:
    """Stop everything, then read what is left."""
    await asyncio.gather(*(process.end() for process in setup.processes))
    connection = await store.connect(setup.server.credentials.superuser_dsn("postdate"))
    try:
        left = await store.snapshot(connection)
    finally:
        await connection.close()
    proof = await _command(setup, "prove", "--json")
    anchor = str(setup.home / "data" / "anchor.jsonl")
    chain = await _command(setup, "events", "verify", "--anchor", anchor, "--json")
    return Evidence(
        lines=setup.record.lines, left=left, drain_seconds=setup.plan.drain_seconds,
        drained_seconds=drained, probe_seconds=late, chain=chain,
        proof=[f"{each['check']}: {each['detail']}" for each in proof["findings"]],
        messages=await setup.broker.messages() if setup.broker else [],
        leaks=_leaks(setup.home),
    )  # fmt: skip


def _leaks(home: Path) -> list[str]:
    """Find payloads and descriptions in the logs: they belong to tenants, not to operators."""
    return [
        f"{canary} stands in {log.name}"
        for log in sorted(home.glob("*.log"))
        for canary in map(life.canary, life.TENANTS)
        if canary in log.read_text(errors="replace")
    ]
