"""Database time only; and tests that wait for something, never for a while."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from tidy.rule import (
    Finding,
    Rule,
    Tree,
    line_of,
    literals,
    nodes,
    python,
    select,
    without_comments,
)

SOURCE: Final = "src/postdate/"
CLIENT: Final = "packages/client/src/postdate/"
LAB: Final = "packages/lab/src/postdate_lab/"

WALL_CLOCK_ALLOWED: Final = {
    f"{SOURCE}http/exchange.py": "the `Date` header of an answer decides nothing",
    f"{LAB}bench/page.py": "the day on which figures were measured; decides nothing",
    f"{LAB}evidence/run.py": "the day on which a part was run; decides nothing",
    f"{LAB}queue_bench/adapter.py": "stamps its samples as the harness wants; nothing is due by it",
    f"{LAB}chaos/": "a client of the run asks for a window from now on; decides nothing",
    f"{SOURCE}cli/": "prints how long ago something was; decides nothing",
    f"{CLIENT}client/": "runs on the user's machine, which has no database to ask",
    f"{SOURCE}delivery/": "`webhook-timestamp` must be the receiver's time; nothing is due by it",
    f"{SOURCE}node/trace.py": "a span has the times of this machine; nothing is due by it",
    f"{SOURCE}runtime/clock_guard.py": "a witness of the database's clock; nothing is due by it",
}
"""Where Python may read the node's wall clock, and why. Durations (`monotonic`) are free."""

SQL_CLOCK_ALLOWED: Final = {
    f"{SOURCE}schema/migrate.py": "its own table is older than the function clock()",
    f"{CLIENT}client/once.py": "runs in the user's database",
    f"{CLIENT}client/relay.py": "runs in the user's database",
}
"""Which modules may read PostgreSQL's clock directly, and why."""

_WALL_CLOCK: Final = frozenset({
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.ctime",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
})  # fmt: skip
_WALL_CLOCK_IMPORTS: Final = frozenset({"time", "time_ns", "localtime", "gmtime", "ctime"})
_SQL_CLOCK: Final = re.compile(
    r"\b(now|(clock|statement|transaction)_timestamp)\s*\(\s*\)"
    r"|\b(current_(timestamp|time|date)|localtime(stamp)?)\b",
    re.IGNORECASE,
)
_CLOCK_FUNCTION: Final = re.compile(
    r"\bCREATE\s+(OR\s+REPLACE\s+)?FUNCTION\s+(\w+\.)?(?:server_|machine_)?clock\s*\("
    r".*?(?:(\$\w*\$).*?\3|;)",
    re.IGNORECASE | re.DOTALL,
)
_POLL: Final = re.compile(r"_?(poll|eventually|until|wait)(_\w+)?")


def _dotted(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case ast.Attribute(value=ast.Attribute(attr=owner), attr=name):
            return f"{owner}.{name}"
        case _:
            return ""


def python_clocks(tree: Tree) -> Iterator[Finding]:
    """Find reads of the node's wall clock: a node with a wrong clock must do no harm."""
    for path, module in python(tree, SOURCE, CLIENT, LAB):
        if path.startswith(tuple(WALL_CLOCK_ALLOWED)):
            continue
        for node in nodes(module):
            if _dotted(node) in _WALL_CLOCK:
                yield Finding(
                    path, getattr(node, "lineno", 1), f"{_dotted(node)}: ask the database"
                )
            elif isinstance(node, ast.ImportFrom) and node.module == "time":
                for alias in node.names:
                    if alias.name in _WALL_CLOCK_IMPORTS:
                        yield Finding(path, node.lineno, f"time.{alias.name}: ask the database")


def sql_clocks(tree: Tree) -> Iterator[Finding]:
    """Find SQL that reads PostgreSQL's clock past `clock()`, which tests can set."""
    for path, text in select(tree, (SOURCE,), ".sql"):
        blank = _CLOCK_FUNCTION.sub(lambda m: "\n" * m[0].count("\n"), without_comments(text))
        for found in _SQL_CLOCK.finditer(blank):
            yield Finding(path, line_of(blank, found.start()), f"{found[0]}: say clock()")
    for path, module in python(tree, SOURCE):
        for node in literals(module) if path not in SQL_CLOCK_ALLOWED else ():
            if call := _SQL_CLOCK.search(str(node.value)):
                yield Finding(path, node.lineno, f"{call[0]}: say clock()")


def blind_sleeps(tree: Tree) -> Iterator[Finding]:
    """Find tests that sleep outside a polling helper (`poll_…`, `eventually`, `wait_…`)."""
    for path, module in python(tree, "tests/"):
        yield from _sleeps(path, module, inside="")


def _sleeps(path: str, node: ast.AST, inside: str) -> Iterator[Finding]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        inside = node.name
    if isinstance(node, ast.Call) and _is_sleep(node) and not _POLL.fullmatch(inside):
        yield Finding(path, node.lineno, "poll with a deadline instead of sleeping")
    for child in ast.iter_child_nodes(node):
        yield from _sleeps(path, child, inside)


def _is_sleep(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    gives_way = [ast.unparse(argument) for argument in call.args] == ["0"]
    return name == "sleep" and not gives_way


RULES: Final = (
    Rule(
        "python_clocks",
        python_clocks,
        bad=(
            {f"{SOURCE}job/accept/intake.py": "import time\nt = time.time()"},
            {f"{SOURCE}job/accept/intake.py": "from time import monotonic, time_ns"},
            {f"{SOURCE}timer/timer.py": "t = datetime.now(UTC)"},
            {f"{SOURCE}worker/loop.py": "t = datetime.datetime.utcnow()"},
            {f"{SOURCE}worker/loop.py": "field(default_factory=datetime.now)"},
        ),
        good=(
            {f"{SOURCE}worker/loop.py": "import time\nt = time.monotonic()"},
            {f"{CLIENT}client/sync.py": "import time\nt = time.time()"},
            {f"{SOURCE}worker/loop.py": '"""Never datetime.now()."""'},
        ),
    ),
    Rule(
        "sql_clocks",
        sql_clocks,
        bad=(
            {f"{SOURCE}timer/timer.sql": "SELECT 1 FROM timer WHERE due_at <= now();"},
            {f"{SOURCE}timer/timer.sql": "SELECT CURRENT_TIMESTAMP;"},
            {f"{SOURCE}a/1.sql": "CREATE TABLE a (at timestamptz DEFAULT now());"},
            {
                f"{SOURCE}a/1.sql": "CREATE FUNCTION clock() RETURNS timestamptz AS "
                "$$ SELECT now(); $$;\nSELECT clock_timestamp();"
            },
            {f"{SOURCE}database/pool.py": 'await fetch("SELECT now()")'},
        ),
        good=(
            {f"{SOURCE}timer/timer.sql": "-- not now()\nSELECT 1 WHERE due_at <= clock();"},
            {
                f"{SOURCE}a/1.sql": "CREATE OR REPLACE FUNCTION postdate.clock()\n"
                "RETURNS timestamptz LANGUAGE sql AS $clock$ SELECT now(); $clock$;\nSELECT 1;"
            },
            {f"{SOURCE}a/1.sql": "CREATE FUNCTION clock() RETURNS x RETURN now();"},
        ),
    ),
    Rule(
        "blind_sleeps",
        blind_sleeps,
        bad=(
            {"tests/a.py": "async def test_a():\n    await asyncio.sleep(1)"},
            {"tests/a.py": "from time import sleep\nsleep(0.1)"},
            {"tests/a.py": "def eventually():\n    def f():\n        time.sleep(1)"},
        ),
        good=(
            {"tests/a.py": "async def eventually(check):\n    await asyncio.sleep(0.01)"},
            {"tests/a.py": "async def test_a():\n    await asyncio.sleep(0)"},
            {"src/postdate/worker/loop.py": "def f():\n    sleep(1)"},
        ),
    ),
)
