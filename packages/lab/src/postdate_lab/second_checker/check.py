"""Judge a run by queries over its raw history and the rows that it left, tenant by tenant."""

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from postdate_lab.second_checker import raw

PROBE_SECONDS: Final = 5.0
FOUND_MAX: Final = 50
"""How many findings of one query are kept for a tenant."""

LEFT_PREFIX: Final = "chaos_"
SQLITE_NEEDED: Final = (3, 38)
"""The first version that reads JSON with `->>`."""

_CANARY: Final = re.compile(r"canary-of-([a-z0-9]+)")
_QUERY: Final = re.compile(r"^-- check: (I\d+)\n(.*?;)$", re.MULTILINE | re.DOTALL)
_LINE: Final = "seq, at, who, type, op, n, subject, tenant, data"


class SecondFinding(NamedTuple):
    """One thing that should not be."""

    invariant: str
    tenant: str
    subject: str
    detail: str


class SecondVerdict(NamedTuple):
    """What the second checker says of a run."""

    findings: list[SecondFinding]
    payments: int
    jobs: int

    @property
    def holds(self) -> bool:
        """Return whether nothing was found."""
        return not self.findings


def check(source: Path) -> SecondVerdict:
    """Judge the run in a directory or an archive."""
    if sqlite3.sqlite_version_info < SQLITE_NEEDED:
        raise RuntimeError(f"needs SQLite 3.38 or newer, this is {sqlite3.sqlite_version}")
    with raw.opened(source) as home:
        facts = json.loads((home / "run.json").read_text())
        columns = json.loads((home / "columns.json").read_text())
        faults = list(_faults(raw.lines(home / "history" / "run.jsonl")))
        found, payments, jobs = list(_of_the_run(facts, home)), 0, 0
        for directory in sorted((home / "left").iterdir()):
            with closing(_loaded(home, directory, columns, faults)) as database:
                found += _ask(database, directory.name)
                payments += _count(database, "payment")
                jobs += _count(database, "job")
    return SecondVerdict(found, payments, jobs)


def _of_the_run(facts: Mapping[str, Any], home: Path) -> Iterator[SecondFinding]:
    """Judge what no tenant has for itself: proof, recovery, chain, readiness."""
    for text in facts.get("proof", ()):
        yield SecondFinding("I2", "", "prove", text)
    for text in facts.get("leaks", ()):
        yield SecondFinding("I10", "", "log", text)
    for text in facts.get("chain", ()):
        yield SecondFinding("I12", "", "chain", text)
    if facts.get("drained_seconds") is None:
        yield SecondFinding("I11", "", "backlog", "something stayed open")
    probes = facts.get("probe_seconds") or [PROBE_SECONDS + 1]
    if max(probes) > PROBE_SECONDS:
        yield SecondFinding("I11", "", "probe", f"a job after the faults was late: {probes}")
    if not facts.get("links") or not facts.get("anchored"):
        yield SecondFinding("I12", "", "chain", "no event was verified, or none is anchored")
    with closing(sqlite3.connect(":memory:")) as database:
        _load_lines(database, home / "history" / "run.jsonl")
        yield from _ask(database, "", "run_checks.sql")


def _faults(lines: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float, float]]:
    """Return the name of each fault, when it began and when it ended."""
    began: dict[int, float] = {}
    for line in lines:
        if line["by"] == "nemesis" and line["type"] == "invoke":
            began[line["n"]] = line["at"]
        elif line["by"] == "nemesis":
            yield line["op"], began[line["n"]], line["at"]


def _loaded(
    home: Path, directory: Path, columns: Mapping[str, list[str]],
    faults: Iterable[tuple[str, float, float]],
) -> sqlite3.Connection:  # fmt: skip
    """Load the history and the rows of a tenant into a database of its own."""
    database = sqlite3.connect(":memory:")
    database.create_function("foreign_text", 2, _foreign, deterministic=True)
    database.create_function("member", 2, _member, deterministic=True)
    database.execute("CREATE TABLE fault (name TEXT, begins REAL, ends REAL)")
    database.executemany("INSERT INTO fault VALUES (?, ?, ?)", faults)
    _load_lines(database, home / "history" / f"{directory.name}.jsonl")
    for name, members in columns.items():
        _load_rows(database, _singular(name), members, directory / f"{name}.jsonl")
    _load_messages(database, directory)
    database.executescript(_text("tables.sql"))
    return database


def _load_lines(database: sqlite3.Connection, path: Path) -> None:
    """Load a history."""
    database.execute(f"CREATE TABLE line ({_LINE})")
    marks = ", ".join("?" * len(_LINE.split(", ")))
    database.executemany(
        f"INSERT INTO line VALUES ({marks})",  # noqa: S608 - as many as it has columns
        (_line(seq, line) for seq, line in enumerate(raw.lines(path))),
    )


def _line(seq: int, line: Mapping[str, Any]) -> tuple[Any, ...]:
    data = line.get("data", {})
    return (
        seq, line["at"], line["by"], line["type"], line["op"], line.get("n", 0),
        data.get("subject", ""), line.get("tenant", ""), json.dumps(data),
    )  # fmt: skip


def _singular(file_name: str) -> str:
    """Return the table of a file: `chaos_transfers` has what is a `transfer` each."""
    return file_name.removeprefix(LEFT_PREFIX).removesuffix("s")


def _load_rows(database: sqlite3.Connection, name: str, columns: list[str], path: Path) -> None:
    """Load the rows of one table."""
    database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    marks = ", ".join("?" * len(columns))
    instants = [column.endswith("_at") or column == "scheduled_for" for column in columns]
    database.executemany(
        f"INSERT INTO {name} VALUES ({marks})",  # noqa: S608 - names of the run's own columns
        ([*map(_stored, row, instants)] for row in raw.rows(path)),
    )


def _load_messages(database: sqlite3.Connection, directory: Path) -> None:
    database.execute("CREATE TABLE message (tenant, id, body)")
    found = raw.rows(directory / "messages.jsonl")
    database.executemany(
        "INSERT INTO message VALUES (?, ?, ?)",
        ((directory.name, message_id, body) for _, message_id, body in found),
    )


def _stored(value: Any, is_instant: bool) -> Any:  # noqa: FBT001 - mapped over two lists
    """Return a value as the queries read it: an instant in whole microseconds."""
    if not is_instant or value is None:
        return value
    instant = datetime.fromisoformat(value)
    return int(instant.replace(microsecond=0).timestamp()) * 1_000_000 + instant.microsecond


def _foreign(text: str, tenant: str) -> str:
    return ", ".join(sorted(set(_CANARY.findall(text)) - {tenant}))


def _member(text: str | None, name: str) -> str:
    """Return a text member of a JSON document whose end may be missing."""
    found = re.search(rf'"{name}"\s*:\s*"([^"]*)"', text or "")
    return found[1] if found else ""


def _ask(
    database: sqlite3.Connection, tenant: str, checks: str = "checks.sql"
) -> Iterator[SecondFinding]:
    for invariant, query in _QUERY.findall(_text(checks)):
        for subject, detail in database.execute(query).fetchmany(FOUND_MAX):
            yield SecondFinding(invariant, tenant, str(subject), str(detail))


def _count(database: sqlite3.Connection, table: str) -> int:
    [count] = database.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - ours
    return int(count)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text()
