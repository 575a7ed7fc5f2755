"""Every dependency is used where it is declared, and everything used is declared."""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distributions, packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"postdate", "postdate_assets"}
MENTIONED = re.compile(
    r"""(?m)(?:^\s*(?:from|import)\s+|(?:find_spec|import_module|with_name)\(["']|"-m", ")"""
    r"([\w-]+)"
)
PART_OF = {"aiormq": "aio-pika", "markupsafe": "jinja2", "yarl": "aio-pika"}
"""What stands in the interface of a package that is asked for, and comes with it."""
CALLERS_OWN = {"sqlalchemy"}
"""What a caller brings along with a connection of its own: imported only beside one."""
TOOLS = {
    "asyncpg-stubs", "helm-binary", "import-linter", "kubernetes-validate", "mypy",
    "pytest-asyncio", "pytest-xdist", "ruff", "types-psutil", "types-python-dateutil",
    "types-pyyaml",
}  # fmt: skip
"""What the developers' own commands run, or what mypy reads: no test imports it."""


def project(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path / "pyproject.toml").read_text())


def names(requirements: Iterable[str]) -> set[str]:
    """Give the names alone, as PyPI compares them."""
    found = (re.match(r"[\w.-]+", each) for each in requirements)
    return {_normal(each[0]) for each in found if each}


def used_by(*folders: str) -> set[str]:
    """Name the distributions behind every import and every command below these folders."""
    mentioned = {name for folder in folders for name in _mentioned(ROOT / folder)}
    foreign = mentioned - sys.stdlib_module_names - OURS
    known = _distributions()
    return {each for name in foreign for each in known.get(name, ())}


@cache
def _distributions() -> dict[str, set[str]]:
    """Find the distributions that bring a module or a command, by its name."""
    found: dict[str, set[str]] = {}
    for name, owners in packages_distributions().items():
        found.setdefault(name, set()).update(map(_normal, owners))
    for each in distributions():
        for file in each.files or ():
            if file.parent.name == "bin":
                found.setdefault(file.name, set()).add(_normal(each.name))
    return found


def _normal(name: str) -> str:
    return name.lower().replace("_", "-")


def _mentioned(path: Path) -> Iterator[str]:
    """Name the modules that are imported, and what is found by its name."""
    for file in path.rglob("*.py"):
        yield from MENTIONED.findall(file.read_text())


SERVER = project(".")
EXTRAS: dict[str, list[str]] = SERVER["project"]["optional-dependencies"]


def test_the_server_imports_what_it_asks_for_and_asks_for_what_it_imports() -> None:
    declared = names(SERVER["project"]["dependencies"]) - {"postdate-client"}
    optional = {name for extra in EXTRAS.values() for name in names(extra)}
    groups: dict[str, list[str]] = SERVER["dependency-groups"]
    # What postdate is measured with is imported by the lab alone.
    peers = {name for group, asked in groups.items() if group != "dev" for name in names(asked)}
    used = used_by("src/postdate") - {"pytest"} - peers - CALLERS_OWN
    # OpenTelemetry's share one module, which says nothing about which of them is meant.
    asked = declared | optional
    used = {name for name in used if name in asked or not name.startswith("opentelemetry-")}
    assert declared - used == set(), "declared, and not imported"
    missing = used - asked
    assert {PART_OF.get(name, name) for name in missing} <= asked, "not declared"
    assert missing >= PART_OF.keys(), "an exception that nothing needs"
    assert optional - used == set(), "an extra that nothing imports"


def test_the_client_imports_what_it_asks_for_and_asks_for_what_it_imports() -> None:
    asked = project("packages/client")["project"]
    declared = names(asked["dependencies"])
    optional = {name for extra in asked["optional-dependencies"].values() for name in names(extra)}
    used = used_by("packages/client/src/postdate") - {"pytest"} - CALLERS_OWN
    assert declared <= used <= declared | optional


def test_the_tests_import_what_the_developers_ask_for() -> None:
    declared = names(SERVER["dependency-groups"]["dev"]) - {"postdate-lab", "postdate-client"}
    used = used_by("tests", "tools", "examples")
    assert declared - used - TOOLS == set(), "declared, and not imported"
    assert declared >= TOOLS, "a tool that is gone"


@pytest.mark.parametrize(
    "text",
    [
        "import dateutil.tz",
        "from dateutil import tz",
        "find_spec('dateutil')",
        "path.with_name('dateutil')",
        'run("-m", "dateutil")',
    ],
)
def test_an_import_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.py").write_text(text)
    assert set(_mentioned(tmp_path)) == {"dateutil"}
