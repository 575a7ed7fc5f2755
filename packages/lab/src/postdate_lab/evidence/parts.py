"""The parts of the evidence, in the order in which they run: what is short and finds much first."""

import json
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from postdate_lab.evidence.part import EvidencePart, Round, Run, count_log, count_tests, pytest
from postdate_lab.evidence.record import RoundCount

CHAOS: Final = "chaos"
CHAOS_MINUTES: Final = 20.0
"""The longest round of chaos: what is broken off loses no more than one."""

MUTANT_SLICES: Final = 12
KILL_SECONDS: Final = 30.0
"""What one kill at each failpoint takes, with what is checked between."""

HISTORIES_PER_MINUTE: Final = 250
"""Simulated histories of each of the stages: they run one after the other."""

ELSE: Final = "other-faults"
RUNS_CHAOS: Final = "tests/faults/test_chaos.py"
"""The tests of the harness itself, which the part `chaos` runs as a command."""

KILLS: Final = "kills.jsonl"
HISTORIES: Final = "histories.jsonl"


def _tests(name: str, tries: str, *paths: str) -> EvidencePart:
    """Make a part of tests that exist, the long ones among them."""

    def runs(place: Round) -> Sequence[Run]:
        return [pytest(place, *paths)]

    return EvidencePart(name=name, tries=tries, runs=runs, count=count_tests)


def _faults(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/faults/test_{name}.py" for name in names)


def _else(place: Round) -> Sequence[Run]:
    """Run the fault tests that no other part names: a new one belongs here at first."""
    present = {f"{each}" for each in sorted(Path("tests/faults").glob("test_*.py"))}
    named = {word for part in PARTS if part.name != ELSE for run in part.runs(place)
             for word in run.words}  # fmt: skip
    return [pytest(place, *sorted(present - named - {RUNS_CHAOS}))]


def _kills(place: Round) -> Sequence[Run]:
    env = {
        "POSTDATE_TEST_KILLS": str(max(1, round(place.minutes * 60 / KILL_SECONDS))),
        "POSTDATE_TEST_KILLS_FIRST": str(place.seed % 1000),
        "POSTDATE_TEST_KILLS_LOG": str(place.home / KILLS),
    }
    return [pytest(place, *_faults("failpoints"), env=env)]


def _simulation(place: Round) -> Sequence[Run]:
    env = {
        "POSTDATE_TEST_HISTORIES": str(max(1, round(place.minutes * HISTORIES_PER_MINUTE))),
        "POSTDATE_TEST_SEED": str(place.seed),
        "POSTDATE_TEST_HISTORIES_LOG": str(place.home / HISTORIES),
    }
    return [pytest(place, *_faults("simulation"), env=env, only="hundred_thousand")]


def _mutants(place: Round) -> Sequence[Run]:
    words = [sys.executable, "-m", "mutants.run", f"{place.number}/{place.rounds}"]
    return [Run(words, {"PYTHONPATH": "tests"})]


def _count_mutants(home: Path) -> RoundCount:
    """Count what `mutants.run` prints: a line for each bug."""
    counted = RoundCount(of="seeded bugs")
    for line in (home / "output.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word not in {"caught", "SURVIVED"}:
            continue
        counted.tries += 1
        if word == "SURVIVED":
            counted.wrong += 1
            counted.notes.append(f"{rest.split()[0]} survived")
    return counted


def _chaos(place: Round) -> Sequence[Run]:
    words = [
        sys.executable, "-m", "postdate", "chaos", "--seed", str(place.seed),
        "--seconds", f"{place.minutes / place.rounds * 60:g}", "--rate", "8", "--bulk", "120",
        "--pause", "3.5", "--out", str(place.home / "run"),
    ]  # fmt: skip
    second = [sys.executable, "-m", "postdate_lab.second_checker", str(place.home / "run")]
    return [Run(words), Run(second)]


def _count_chaos(home: Path) -> RoundCount:
    counted = RoundCount(of="payments and jobs")
    path = home / "run" / "report.json"
    if path.exists():
        report = json.loads(path.read_text())
        counted.figures = report["figures"]
        counted.tries = int(counted.figures["payments"] + counted.figures["jobs"])
        counted.wrong = len(report["violations"])
        counted.notes = [f"{v['invariant']} {v['detail']}" for v in report["violations"][:20]]
    return counted


def _suites(place: Round) -> Sequence[Run]:
    words = [sys.executable, "-m", "postdate_lab.suites", "--out", str(place.home / "suites.json")]
    return [Run(words)]


def _count_suites(home: Path) -> RoundCount:
    counted = RoundCount(of="cases of others")
    path = home / "suites.json"
    for suite in json.loads(path.read_text()) if path.exists() else ():
        counted.tries += suite["cases"]
        counted.wrong += len(suite["unexplained"])
        counted.notes += [f"{suite['name']}: {case}" for case in suite["unexplained"][:20]]
        if suite["missing"]:
            counted.skipped.append(f"{suite['name']}: {suite['missing']}")
    return counted


def _bench(place: Round) -> Sequence[Run]:
    scale = f"{min(1.0, place.minutes / 60):g}"
    words = [sys.executable, "-m", "postdate", "bench", "--all", "--scale", scale]
    return [Run([*words, "--page", str(place.home / "bench.md")])]


def _count_bench(home: Path) -> RoundCount:
    page = home / "bench.md"
    rows = (
        [line for line in page.read_text().splitlines() if line.startswith("| ")]
        if page.exists()
        else []
    )
    return RoundCount(tries=len(rows), of="rows of figures")


def _logged(name: str, of: str, member: str) -> Callable[[Path], RoundCount]:
    return partial(_count_logged, name=name, of=of, member=member)


def _count_logged(home: Path, name: str, of: str, member: str) -> RoundCount:
    return count_log(home, name, of, member)


PARTS: Final[Sequence[EvidencePart]] = (
    _tests(
        "cuts", "A cut before, in and after every statement and commit.",
        *_faults("sweep", "pg_proxy"),
    ),
    EvidencePart(
        name="kills", tries="`kill -9` at every named failpoint.", scales=True,
        runs=_kills, count=_logged(KILLS, "kills", "kills"),
    ),
    _tests(
        "killed-processes", "Processes killed and suspended with everything in their hands.",
        *_faults("worker_kill", "change_set_kills", "schedule_kills", "settle_kills",
                 "settle_races", "halt_races", "api_processes", "postmaster_kills"),
    ),
    EvidencePart(
        name="simulation", tries="Stages on a simulated database, clock and order.", scales=True,
        runs=_simulation, count=_logged(HISTORIES, "histories", "histories"),
    ),
    _tests("models", "Every order of events, by Spin.", *_faults("models")),
    EvidencePart(
        name="seeded-bugs", tries="One bug at a time: some test must notice it.",
        runs=_mutants, count=_count_mutants, rounds=lambda _: MUTANT_SLICES,
    ),
    _tests(
        "corruptions", "Rows changed, removed, doubled and forged behind the program's back.",
        *_faults("corruptions", "tamper", "tamper_facts", "forged_catalog", "forged_outbox",
                 "missing_rows", "lost_timer", "verify", "repair", "another_secret_key"),
    ),
    _tests(
        "hostile", "Hostile clients, receivers and corpora.", "tests/hostile",
        "tests/flows/test_fuzz.py", *_faults("receivers", "receiver_answers", "slow_connections"),
    ),
    _tests(
        "recurrence", "Rules against dateutil, croniter, cronsim and an oracle of minutes.",
        "tests/model/test_recurrence_oracles.py", "tests/model/test_schedule_oracle.py",
        *_faults("schedule_policies", "schedule_soak"),
    ),
    _tests(
        "clocks", "Clocks of nodes and of the database that leap.",
        *_faults("database_clock", "node_clock", "clock_leap"),
    ),
    _tests(
        "disks", "Full disks, disks that fail, a log that cannot be written.",
        *_faults("disk_full", "failing_fsync", "log_lost"),
    ),
    _tests(
        "network", "Partitions, half-open and slow connections, a database away.",
        *_faults("network", "half_open", "database_away", "slow_commits", "tls", "relay"),
    ),
    _tests(
        "locks-and-rights", "Locked tables and rows, revoked rights: what `/readyz` says of them.",
        *_faults("readiness", "readiness_causes", "start_waits", "locked_account", "locked_bulk",
                 "locked_timer"),
    ),
    _tests(
        "neighbours", "Greedy tenants, a login that misbehaves, 10,000 idle tenants, spikes.",
        *_faults("upright", "load_faults", "notify_queue", "idle_cost", "watch_cost",
                 "backlog_after_faults", "safety_cost"),
    ),
    _tests(
        "server", "The embedded server and its supervisor: killed, suspended, stuck.",
        *_faults("embedded", "embedded_kills", "embedded_load", "embedded_refusals",
                 "embedded_role", "embedded_stuck", "serve", "serve_soak"),
    ),
    _tests("outage", "Six hours of outage.", *_faults("long_outage")),
    _tests("brokers", "Brokers killed around a publish.", *_faults("queues")),
    _tests(
        "restores", "Dumps and restores.",
        "tests/flows/test_dump.py", "tests/flows/test_restore.py",
    ),
    _tests(
        "failover", "A primary lost under load, by hand and under Patroni.",
        *_faults("replica", "unsafe_commits", "failover"),
    ),
    _tests(
        "citus", "Shards: flows, kills, moves.", *_faults("citus", "citus_proof", "citus_speed")
    ),
    _tests("upgrade", "A rolling restart and upgrade under load.", *_faults("rolling")),
    EvidencePart(
        name=ELSE, tries="Every other fault that has a test.", runs=_else, count=count_tests
    ),
    _tests(
        "suites-in-tests", "schemathesis with state, promtool, Django's suite, Standard Webhooks.",
        "tests/flows/test_fuzz.py", "tests/docs/test_alerts.py", "tests/docs/test_django_suite.py",
        "tests/docs/test_webhook_guide.py",
    ),
    EvidencePart(
        name="suites", tries="Suites that nobody here wrote.", runs=_suites, count=_count_suites
    ),
    EvidencePart(name="bench", tries="The bench.", scales=True, runs=_bench, count=_count_bench),
    EvidencePart(
        name=CHAOS, tries="Every fault of the nemesis at random, on nine processes under load.",
        scales=True, runs=_chaos, count=_count_chaos, archives=True,
        rounds=lambda minutes: max(1, math.ceil(minutes / CHAOS_MINUTES)),
    ),
)  # fmt: skip
