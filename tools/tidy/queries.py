"""Rules of the named queries: each is called, and each is safe when sharded."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from tidy.rule import (
    Finding,
    Rule,
    Tree,
    line_of,
    literals,
    python,
    select,
    without_comments,
)

SOURCE: Final = "src/postdate/"
DATABASE: Final = f"{SOURCE}database/"
CLIENT: Final = "packages/client/src/postdate/client/"
LAB: Final = "packages/lab/src/postdate_lab/"
SPEAKS_SQL: Final = (
    DATABASE,
    f"{SOURCE}proof/",
    f"{SOURCE}runtime/node.",
    f"{SOURCE}schema/",
    f"{SOURCE}secret/",
    f"{SOURCE}timer/",
    LAB,
)
"""Rooms that speak SQL beside the stores of the nouns; the lab has queries of its own."""

SECOND_CHECKER: Final = f"{LAB}second_checker/"
"""Asks SQLite about the files of a run, by other means than the first checker."""

APPLIED: Final = (
    SECOND_CHECKER,
    f"{DATABASE}functions/",
    f"{DATABASE}migrations/",
    f"{DATABASE}shard/functions/",
)
"""SQL that `migrate` or the second checker applies: no named queries."""

WAKEUP: Final = f"{DATABASE}connection/wakeup.sql"
"""The one place that may notify: on its own connection, after the commit it tells of."""

_NAME: Final = re.compile(r"^-- name: *(\S+) *$", re.MULTILINE)
_NOUN_VERB: Final = re.compile(r"[a-z]+(_[a-z0-9]+)+")
_ROW_LOCK: Final = re.compile(r"\bFOR\s+((NO\s+KEY\s+)?UPDATE|(KEY\s+)?SHARE)\b", re.IGNORECASE)
_ONE_BUCKET: Final = re.compile(r"\bbucket\s*=\s*\$\d", re.IGNORECASE)
_NOTIFY: Final = re.compile(r"\b(pg_)?notify\b", re.IGNORECASE)
_ADVISORY: Final = re.compile(r"advisory_", re.IGNORECASE)
_STATEMENT: Final = re.compile(
    r"\s*(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|WITH\s+\w+\s+AS)\s",
    re.IGNORECASE | re.DOTALL,
)


class Query(NamedTuple):
    """A named query: where it stands, and its SQL with the comments blanked out."""

    path: str
    line: int
    name: str
    sql: str


def speaks_sql(path: str) -> bool:
    """Tell whether a module may contain SQL: a noun's store, and a few rooms."""
    stores = path.startswith(SOURCE) and ("/store/" in path or path.endswith("/store.py"))
    return stores or path.startswith(SPEAKS_SQL)


def parse(path: str, text: str) -> Iterator[Query]:
    """Split a file of queries at its `-- name:` lines."""
    marks = list(_NAME.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)]
    for mark, end in zip(marks, ends[1:], strict=True):
        sql = without_comments(text[mark.end() : end]).strip()
        yield Query(path, line_of(text, mark.start()), mark[1], sql)


def query_files(tree: Tree) -> Iterator[tuple[str, str]]:
    """Give the files of named queries."""
    for path, text in select(tree, (SOURCE, LAB), ".sql"):
        if not path.startswith(APPLIED):
            yield path, text


def queries(tree: Tree) -> Iterator[Query]:
    """Give every named query."""
    for path, text in query_files(tree):
        yield from parse(path, text)


def malformed_queries(tree: Tree) -> Iterator[Finding]:
    """Find SQL without a name, names without SQL, twins, and names without their noun first."""
    for path, text in query_files(tree):
        mark = _NAME.search(text)
        if without_comments(text[: mark.start()] if mark else text).strip():
            yield Finding(path, 1, "SQL before the first `-- name:` line has no name")
    seen: dict[str, str] = {}
    for query in queries(tree):
        file = PurePosixPath(query.path)
        nouns = tuple(f"{name}_" for name in (file.stem, *file.parts[2:-1]))
        if not (_NOUN_VERB.fullmatch(query.name) and query.name.startswith(nouns)):
            yield Finding(query.path, query.line, f"{query.name}: call it {file.stem}_<verb>")
        if not query.sql:
            yield Finding(query.path, query.line, f"{query.name} has no SQL")
        if query.name in seen:
            yield Finding(query.path, query.line, f"{query.name} is in {seen[query.name]} too")
        seen[query.name] = query.path


def uncalled_queries(tree: Tree) -> Iterator[Finding]:
    """Find queries that no function of their folder names."""
    called: dict[str, set[str]] = {}
    for path, module in python(tree, SOURCE, LAB):
        names = called.setdefault(str(PurePosixPath(path).parent), set())
        names.update(str(node.value) for node in literals(module))
    for query in queries(tree):
        folder = str(PurePosixPath(query.path).parent)
        if query.name not in called.get(folder, ()):
            yield Finding(query.path, query.line, f"{query.name} has no caller in {folder}/*.py")


def locks_across_buckets(tree: Tree) -> Iterator[Finding]:
    """Find row locks that a sharded PostgreSQL would refuse."""
    for query in queries(tree):
        if _ROW_LOCK.search(query.sql) and not _ONE_BUCKET.search(query.sql):
            yield Finding(query.path, query.line, f"{query.name} locks rows without `bucket = $n`")


def notifications(tree: Tree) -> Iterator[Finding]:
    """Find NOTIFY in business SQL: inside the transaction it cost 90 % of the throughput."""
    for path, text in select(tree, (SOURCE,), ".sql"):
        found = _NOTIFY.search(without_comments(text))
        if found and path != WAKEUP:
            line = line_of(without_comments(text), found.start())
            yield Finding(path, line, f"NOTIFY may stand only in {WAKEUP}")


TAKEN_AWAY: Final = {
    f"{DATABASE}functions/client.sql": "says which functions an administrator must take away",
    f"{DATABASE}embedded/roles.py": "takes them away from every login",
}
"""Files that name advisory locks, and why."""


def advisory_locks(tree: Tree) -> Iterator[Finding]:
    """Find advisory locks: every login may take the same one, and hold up all tenants."""
    for path, text in (*select(tree, (SOURCE, LAB), ".sql"), *select(tree, (SOURCE, LAB), ".py")):
        found = _ADVISORY.search(without_comments(text) if path.endswith(".sql") else text)
        if found and path not in TAKEN_AWAY:
            line = line_of(text, found.start())
            yield Finding(path, line, "lock a table or a row that clients cannot reach instead")


ELSEWHERE: Final = {
    f"{CLIENT}once.py": "runs in the user's database, on a table of the user's own",
    f"{CLIENT}relay.py": "runs in the user's database, on a table of the user's own",
}
"""Modules that speak SQL to another database than ours, and why."""


def stray_sql(tree: Tree) -> Iterator[Finding]:
    """Find statements on our tables in Python code outside the store."""
    for path, module in python(tree, SOURCE, CLIENT):
        if speaks_sql(path) or path in ELSEWHERE:
            continue
        for node in literals(module):
            if _STATEMENT.match(str(node.value)):
                yield Finding(path, node.lineno, "SQL belongs in the store of its noun")


def _sql(text: str, noun: str = "timer") -> Tree:
    return {f"{SOURCE}{noun}/store/{noun}.sql": text}


_CLAIM: Final = "-- name: timer_claim\nSELECT 1 FROM timer WHERE bucket = $1 FOR UPDATE;\n"

RULES: Final = (
    Rule(
        "malformed_queries",
        malformed_queries,
        bad=(
            _sql("SELECT 1;"),
            _sql("SELECT 0;\n" + _CLAIM),
            _sql("-- name: claim_timer\nSELECT 1;"),
            _sql("-- name: timer\nSELECT 1;"),
            _sql("-- name: timer_claim\n-- nothing\n"),
            _sql(_CLAIM * 2),
        ),
        good=(
            _sql("-- The leases.\n\n" + _CLAIM),
            _sql("-- name: api_key_find\nSELECT 1;", "api_key"),
            {f"{SOURCE}timer/lease.sql": "-- name: timer_lease_find\nSELECT 1;"},
            {f"{DATABASE}functions/timer.sql": "CREATE FUNCTION timer_due() RETURNS int;"},
        ),
    ),
    Rule(
        "uncalled_queries",
        uncalled_queries,
        bad=(
            _sql(_CLAIM),
            {**_sql(_CLAIM), f"{SOURCE}timer/store/timer.py": '"""timer_claim"""\n# "timer_claim"'},
            {**_sql(_CLAIM), "src/postdate/worker/loop.py": 'call("timer_claim")'},
            {**_sql(_CLAIM), f"{SOURCE}job/job.py": 'call("timer_claim")'},
        ),
        good=({**_sql(_CLAIM), f"{SOURCE}timer/store/timer.py": 'QUERY = find("timer_claim")'},),
    ),
    Rule(
        "locks_across_buckets",
        locks_across_buckets,
        bad=(
            _sql("-- name: timer_claim\nSELECT 1 FROM timer FOR UPDATE SKIP LOCKED;"),
            _sql("-- name: timer_claim\n-- bucket = $1\nSELECT 1 FROM timer\nFOR  no key update;"),
            _sql(_CLAIM + "-- name: timer_lock\nSELECT 1 FROM timer FOR SHARE;"),
            _sql("-- name: timer_claim\nSELECT 1 FROM timer WHERE bucket = ANY($1) FOR UPDATE;"),
        ),
        good=(_sql(_CLAIM), _sql("-- name: timer_find\n-- no FOR UPDATE\nSELECT 1 FROM timer;")),
    ),
    Rule(
        "notifications",
        notifications,
        bad=(
            _sql("-- name: timer_insert\nSELECT pg_notify('due', '');"),
            {f"{SOURCE}migrations/0001_core.sql": "NOTIFY due;"},
        ),
        good=(
            _sql("-- no NOTIFY here"),
            {WAKEUP: "-- name: wakeup_send\nSELECT pg_notify($1, '');"},
        ),
    ),
    Rule(
        "advisory_locks",
        advisory_locks,
        bad=(
            _sql("-- name: timer_claim\nSELECT pg_advisory_xact_lock(1);"),
            {f"{DATABASE}functions/halt.sql": "SELECT pg_try_advisory_lock_shared(1);"},
            {f"{SOURCE}migrate.py": 'LOCK = "SELECT pg_advisory_lock($1)"'},
        ),
        good=(
            _sql("-- no pg_advisory_lock here\n" + _CLAIM),
            {f"{DATABASE}embedded/roles.py": "proname ~ '^pg_advisory_lock'"},
        ),
    ),
    Rule(
        "stray_sql",
        stray_sql,
        bad=(
            {"src/postdate/worker/loop.py": 'run("SELECT 1 FROM job")'},
            {"src/postdate/job/accept/intake.py": 'run("""\n  insert into job VALUES (1)""")'},
        ),
        good=(
            {"src/postdate/worker/loop.py": '"""Select the jobs from the lane."""'},
            {"src/postdate/cli/main.py": 'print("Update the settings, or select another file")'},
            {f"{CLIENT}once.py": 'run("INSERT INTO postdate_once VALUES (1)")'},
        ),
    ),
)
