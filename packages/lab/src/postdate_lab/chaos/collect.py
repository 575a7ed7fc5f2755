"""Write down what a run has left, and read it again, tenant by tenant."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import msgspec

from postdate.database.embedded import Embedded
from postdate_lab.chaos import database as store
from postdate_lab.chaos.broker import Broker
from postdate_lab.chaos.evidence import Evidence, RunFindings
from postdate_lab.chaos.history import RUN, read
from postdate_lab.chaos.life import foreign_canaries
from postdate_lab.chaos.plan import ChaosPlan
from postdate_lab.chaos.process import command

FACTS: Final = "run.json"
LEFT: Final = "left"
COLUMNS: Final = "columns.json"
MESSAGES: Final = "messages.jsonl"


class RunFacts(RunFindings, kw_only=True):
    """What is known of a run beside its history and the rows of its tenants."""

    plan: ChaosPlan
    left: int = 0
    """How many were open after the last fault."""


async def collect(
    home: Path, facts: RunFacts, server: Embedded, broker: Broker | None, env: Mapping[str, str]
) -> None:
    """Write down everything that is left, once every process has ended."""
    connection = await store.connect(server.credentials.superuser_dsn("postdate"))
    try:
        await store.write_snapshot(connection, home / LEFT)
        (home / COLUMNS).write_bytes(msgspec.json.encode(store.columns()))
        facts.links = await store.count_links(connection)
    finally:
        await connection.close()
    if broker is not None:
        await _messages(home / LEFT, broker)
    proof = await command(env, "prove", "--json")
    named = [f"{each['check']}: {each['subject']}: {each['detail']}" for each in proof["findings"]]
    facts.proof = [each for each in named if not each.startswith("chain_")]
    facts.chain = [each for each in named if each.startswith("chain_")]
    anchor = home / "data" / "anchor.jsonl"
    facts.anchored = len(anchor.read_bytes().splitlines()) if anchor.exists() else 0
    facts.leaks = _leaks(home)
    (home / FACTS).write_bytes(msgspec.json.encode(facts))


async def _messages(directory: Path, broker: Broker) -> None:
    """Write the stream of the broker into the folder of each tenant."""
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}
        async for subject, message_id, body in broker.messages():
            tenant = subject.rpartition(".")[2]
            if tenant not in files:
                path = directory / tenant / MESSAGES
                files[tenant] = stack.enter_context(path.open("wb"))
            files[tenant].write(msgspec.json.encode((subject, message_id, body)) + b"\n")


def _leaks(home: Path) -> list[str]:
    """Find payloads and descriptions in the logs: they belong to tenants, not to operators."""
    return [
        f"{canary} stands in {log.name}"
        for log in sorted([*home.glob("*.log"), *home.glob("disk/*.log")])
        for canary in foreign_canaries(log.read_bytes(), "")
    ]


def evidence_of(home: Path) -> tuple[ChaosPlan, Iterator[Evidence]]:
    """Return the plan, and the evidence of the run and of each tenant, one after the other."""
    facts = msgspec.json.decode((home / FACTS).read_bytes(), type=RunFacts)
    return facts.plan, _parts(home, facts)


def _parts(home: Path, facts: RunFacts) -> Iterator[Evidence]:
    run_lines = list(read(home / "history" / f"{RUN}.jsonl"))
    found = {name: getattr(facts, name) for name in RunFindings.__struct_fields__}
    yield Evidence(
        lines=run_lines, left=store.Snapshot(), open_at_first=facts.left,
        drain_seconds=facts.plan.calm_seconds(facts.left), **found,
    )  # fmt: skip
    for directory in sorted((home / LEFT).iterdir()):
        yield Evidence(
            lines=list(read(home / "history" / f"{directory.name}.jsonl")),
            left=store.read_snapshot(directory), run_lines=run_lines, of_run=False,
            messages=_read_messages(directory / MESSAGES),
        )  # fmt: skip


def _read_messages(path: Path) -> list[tuple[str, str, str]]:
    if not path.exists():
        return []
    decode = msgspec.json.Decoder(tuple[str, str, str]).decode
    with path.open("rb") as file:
        return list(map(decode, file))
