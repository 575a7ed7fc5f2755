"""No function that nobody calls: what only a test uses belongs to the test."""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tidy.rule import Finding, Rule, Tree, nodes, python

SOURCE: Final = "src/postdate/"
CLIENT: Final = "packages/client/src/postdate/client/"
OFFERED: Final = (CLIENT, f"{SOURCE}console/")
"""What programs of others call, and what is found by its decorator."""


ELSEWHERE: Final = {
    "main": "the entry point of a process",
    "__getattr__": "Python asks it for what a module lacks",
    "arm": "a fault test arms the failpoints in a process that it then kills",
}
"""Functions that are called from outside of the source, and by whom."""


def unused_functions(tree: Tree) -> Iterator[Finding]:
    """Find functions of modules that no other line of the source names."""
    modules = dict(python(tree, SOURCE, CLIENT))
    named = Counter(name for module in modules.values() for name in _names(module))
    for path, module in modules.items():
        if path.startswith(OFFERED) or "/api/" in path or path.endswith("/api.py"):
            continue
        for node in module.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
                continue
            inside = sum(name == node.name for name in _names(node))
            if named[node.name] == inside and node.name not in ELSEWHERE:
                yield Finding(path, node.lineno, f"nobody calls {node.name}")


def _names(module: ast.AST) -> Iterator[str]:
    """Give every name that is read: bare, of a module, imported, or quoted."""
    for node in nodes(module):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name
            case ast.Constant(value=str(text)):
                yield text.rpartition(":")[2]  # `module:name`, as a command is looked up
            case _:
                pass


RULES: Final = (
    Rule(
        "unused_functions",
        unused_functions,
        bad=(
            {"src/postdate/a/store.py": "def find() -> None: ..."},
            {"src/postdate/a/store.py": "def find(n: int) -> None:\n    find(n - 1)"},
            {"src/postdate/a/store.py": "def find(): ...", "tests/a.py": "find()"},
        ),
        good=(
            {"src/postdate/a/store.py": "def find(): ...", "src/postdate/b.py": "a.find()"},
            {"src/postdate/a/store.py": "def find(): ...\nFIND = find"},
            {"src/postdate/cli/a.py": "@app.command\ndef find(): ..."},
            {f"{CLIENT}a.py": "def find(): ..."},
        ),
    ),
)
