"""Nobody waits for a connection without an end: pools are asked in one place, and with a time."""

import ast
from collections.abc import Iterator
from typing import Final

from tidy.rule import Finding, Rule, Tree, nodes, python

PACKAGE: Final = "src/postdate/"
POOLS: Final = f"{PACKAGE}database/connection/pool.py"
"""The one place that takes connections out of the pools."""

_POOLS: Final = frozenset({"writer", "reader", "pool"})
_TAKES: Final = frozenset(
    {"acquire", "execute", "executemany", "fetch", "fetchmany", "fetchrow", "fetchval"}
)


def unbounded_acquires(tree: Tree) -> Iterator[Finding]:
    """Find connections that are waited for without an end, or taken past `Database`."""
    for path, module in python(tree, PACKAGE):
        for node in nodes(module):
            if not (isinstance(node, ast.Call) and _takes(node.func)):
                continue
            if path != POOLS and _attribute(node.func):
                yield Finding(path, node.lineno, "ask `connection()` or `write()` of Database")
            elif path == POOLS and not any(each.arg == "timeout" for each in node.keywords):
                yield Finding(path, node.lineno, "waits for a free connection without a timeout")


def _takes(called: ast.expr) -> bool:
    """Say whether a call takes a connection: `acquire`, or a statement sent to a pool itself."""
    if not (isinstance(called, ast.Attribute) and called.attr in _TAKES):
        return False
    pool = called.value
    name = pool.attr if isinstance(pool, ast.Attribute) else getattr(pool, "id", None)
    return name in _POOLS


def _attribute(called: ast.expr) -> bool:
    """Tell `database.writer` from a stream or a queue that is called so."""
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Attribute)


RULES: Final = (
    Rule(
        "unbounded_acquires",
        unbounded_acquires,
        bad=(
            {"src/postdate/job/view.py": "async with self._database.writer.acquire() as c: pass"},
            {"src/postdate/job/view.py": "x = database.writer.acquire(timeout=5)"},
            {"src/postdate/job/view.py": "x = database.reader.fetchval('SELECT 1')"},
            {POOLS: "x = pool.acquire()"},
            {POOLS: "x = self.writer.fetchrow('SELECT 1')"},
        ),
        good=(
            {"src/postdate/job/view.py": "async with database.connection() as c: pass"},
            {"src/postdate/worker/x.py": "room.acquire(); reader.fetch(1)"},
            {POOLS: "x = pool.acquire(timeout=5)"},
        ),
    ),
)
