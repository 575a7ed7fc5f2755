"""A rule, what it finds, and the tree of files it reads."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

Tree = Mapping[str, str]
"""The text of each file by its path from the root of the project, with forward slashes."""


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class Rule:
    """A check with the samples that prove it: each bad tree trips it, each good one does not."""

    name: str
    check: Callable[[Tree], Iterable[Finding]]
    bad: tuple[Tree, ...]
    good: tuple[Tree, ...]


def read_tree(root: Path) -> dict[str, str]:
    """Read every file of the project except what .gitignore names."""
    lines = (root / ".gitignore").read_text().split()
    ignored = [".git", *(line.rstrip("/") for line in lines)]
    return dict(_walk(root, "", ignored))


def _walk(folder: Path, prefix: str, ignored: list[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, f"{prefix}{path.name}/", ignored)
        elif path.is_file():
            data = path.read_bytes()
            # A picture has no text, yet a page may link to it.
            text = "" if b"\0" in data else data.decode(errors="replace")
            yield prefix + path.name, text


def select(tree: Tree, folders: tuple[str, ...], suffix: str) -> Iterator[tuple[str, str]]:
    """Give the files under some folders whose names end so."""
    for path, text in tree.items():
        if path.startswith(folders) and path.endswith(suffix):
            yield path, text


def python(tree: Tree, *folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Give the parsed Python files under some folders."""
    for path, text in select(tree, folders, ".py"):
        yield path, _parsed(text)


# A dozen rules read the same files: parsing them again for each was most of the time.
@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


# And so was walking through them: a walk asks each node for its fields by name.
@cache
def nodes(root: ast.AST) -> tuple[ast.AST, ...]:
    """Give a node and all below it, in the order of `ast.walk`."""
    return tuple(ast.walk(root))


def literals(module: ast.Module) -> Iterator[ast.Constant]:
    """Give the string literals that are data: docstrings and bare strings are prose."""
    prose = {id(node.value) for node in nodes(module) if isinstance(node, ast.Expr)}
    for node in nodes(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


def without_comments(sql: str) -> str:
    """Blank out SQL comments and keep the line numbers."""
    blocks = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), sql, flags=re.DOTALL)
    return re.sub(r"--[^\n]*", "", blocks)


def line_of(text: str, offset: int) -> int:
    """Count the lines up to an offset, from 1."""
    return text.count("\n", 0, offset) + 1
