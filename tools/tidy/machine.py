"""Nothing in the project points at one machine, or at work not done."""

import re
from collections.abc import Iterator
from typing import Final

from tidy.rule import Finding, Rule, Tree

EXEMPT: Final = ("uv.lock",)
"""Lock files name where each file comes from: that is their purpose."""

# Written so that no pattern matches its own source.
_MACHINE: Final = re.compile(
    r"(?<![\w.$}])/(?:work|root|Users|opt/pypi[\w-]*)/|(?<![\w.$}])/home/\w|file:/{2}"
)
_REGISTRY: Final = re.compile(
    r"\b(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|crates\.io)\b"
    r"|\bindex[-_]url\b",
    re.IGNORECASE,
)
_TO_DO: Final = re.compile(r"\b(?:TO[D]O|FIX[M]E|XX[X]|HAC[K])\b")


def _search(tree: Tree, pattern: re.Pattern[str], message: str) -> Iterator[Finding]:
    for path, text in tree.items():
        if path in EXEMPT:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if found := pattern.search(line):
                yield Finding(path, number, f"{found[0]}: {message}")


def machine_paths(tree: Tree) -> Iterator[Finding]:
    """Find paths that exist on one machine only."""
    yield from _search(tree, _MACHINE, "a path of one machine")


def registry_hosts(tree: Tree) -> Iterator[Finding]:
    """Find names of package registries: which one to use is the machine's business."""
    yield from _search(tree, _REGISTRY, "the machine's settings choose the registry")


def to_dos(tree: Tree) -> Iterator[Finding]:
    """Find work left in comments."""
    yield from _search(tree, _TO_DO, "open work is an issue")


def _joined(path: str, separator: str, *parts: str) -> Tree:
    """Make a sample whose text does not stand in this file, which the rules read too."""
    return {path: f"see {separator.join(parts)}"}


RULES: Final = (
    Rule(
        "machine_paths",
        machine_paths,
        bad=(
            _joined("docs/start.md", "/", "", "work", "main"),
            _joined("docs/start.md", "/", "", "root", ".cache"),
            _joined("docs/start.md", "/", "", "home", "ada"),
            _joined(".ci/run", "/", "", "Users", "ada"),
            _joined("Makefile", "//", "file:", "x"),
        ),
        good=(
            {"docs/start.md": "https://host/work/x, $HOME/work/x, ./work/x, src/root/x"},
            _joined("uv.lock", "/", "", "work", "main"),
        ),
    ),
    Rule(
        "registry_hosts",
        registry_hosts,
        bad=(
            _joined("Makefile", ".", "https://test", "pypi", "org"),
            _joined("package.json", ".", "registry", "npmjs", "org"),
            _joined("pyproject.toml", "_", "index", "url"),
        ),
        good=(
            _joined("uv.lock", ".", "pypi", "org"),
            {"docs/start.md": "from PyPI: pip install postdate; https://postgresql.org"},
        ),
    ),
    Rule(
        "to_dos",
        to_dos,
        bad=(_joined("src/a.py", "", "# TO", "DO"), _joined("docs/a.md", "", "FIX", "ME")),
        good=({"src/a.py": "todo_list = 1"},),
    ),
)
