"""Limits on what a reader must hold in mind at once."""

import ast
from collections.abc import Iterator
from typing import Final

from tidy.rule import Finding, Rule, Tree, nodes, python, select

FILE_LINES: Final = 400
FUNCTION_LINES: Final = 70
LINE_CHARACTERS: Final = 100
README_LINES: Final = 120

CODE: Final = ("src/", "packages/", "tools/", "tests/", "examples/")
CLIENT: Final = "packages/client/src/postdate/client/"
GENERATED: Final = {
    f"{CLIENT}models/": "one class after the other, written from the API",
    f"{CLIENT}problems.py": "one class for each error code, written from the API",
}
"""Files that nobody reads from top to bottom, and why they may be long."""


def _code(tree: Tree) -> Iterator[tuple[str, str]]:
    yield from select(tree, CODE, ".py")
    yield from select(tree, CODE, ".sql")


def long_files(tree: Tree) -> Iterator[Finding]:
    """Find files that should be two."""
    for path, text in _code(tree):
        count = len(text.splitlines())
        if count > FILE_LINES and not path.startswith(tuple(GENERATED)):
            yield Finding(path, count, f"{count} lines; split it, the limit is {FILE_LINES}")


def long_functions(tree: Tree) -> Iterator[Finding]:
    """Find functions that do more than one thing."""
    for path, module in python(tree, *CODE):
        for node in nodes(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > FUNCTION_LINES:
                    yield Finding(
                        path, node.lineno, f"{node.name} has {count} lines of {FUNCTION_LINES}"
                    )


def long_lines(tree: Tree) -> Iterator[Finding]:
    """Find lines that do not fit beside another file."""
    for path, text in _code(tree):
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > LINE_CHARACTERS:
                yield Finding(path, number, f"{len(line)} characters of {LINE_CHARACTERS}")


def long_readme(tree: Tree) -> Iterator[Finding]:
    """Find a README that has become a manual."""
    count = len(tree.get("README.md", "").splitlines())
    if count > README_LINES:
        yield Finding("README.md", count, f"{count} lines of {README_LINES}; the rest is docs/")


RULES: Final = (
    Rule(
        "long_files",
        long_files,
        bad=({"src/a.py": "x = 1\n" * 401}, {"src/a.sql": "SELECT 1;\n" * 401}),
        good=(
            {"src/a.py": "x = 1\n" * 400},
            {"docs/a.md": "word\n" * 401},
            {f"{CLIENT}problems.py": "x = 1\n" * 401},
        ),
    ),
    Rule(
        "long_functions",
        long_functions,
        bad=(
            {"src/a.py": "def f():\n" + "    x = 1\n" * 70},
            {"tests/a.py": "class A:\n  async def f(self):\n" + "    x = 1\n" * 70},
        ),
        good=({"src/a.py": "def f():\n" + "    x = 1\n" * 69},),
    ),
    Rule(
        "long_lines",
        long_lines,
        bad=({"src/a.py": "#" * 101}, {"src/a.sql": "-" * 101}),
        good=({"src/a.py": "#" * 100}, {"README.md": "-" * 101}),
    ),
    Rule(
        "long_readme",
        long_readme,
        bad=({"README.md": "word\n" * 121},),
        good=({"README.md": "word\n" * 120},),
    ),
)
