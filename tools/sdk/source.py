"""Put the client's modules together: `make docs` writes them, a test compares."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from postdate.api.endpoints import ENDPOINTS
from postdate.core.operation_name import NOUNS
from sdk import render
from sdk.operations import Operation, operations
from sdk.shapes import Shapes

CLIENT: Final = Path(__file__).parents[2] / "packages/client/src/postdate/client"
FOLDERS: Final = ("models", "calls")


@cache
def described() -> tuple[list[Operation], Shapes]:
    """Describe the whole API."""
    shapes = Shapes()
    return operations(ENDPOINTS, shapes), shapes


@cache
def modules() -> Mapping[str, str]:
    """Write every generated module: its path below the client, and its text."""
    found, shapes = described()
    where = render.homes(found, shapes)
    texts = {f"models/{h}.py": render.models(h, where, shapes) for h in set(where.values())}
    texts["models/__init__.py"] = render.exports(where, shapes)
    groups = [group for group in NOUNS if any(each.group == group for each in found)]
    for group in groups:
        mine = [each for each in found if each.group == group]
        texts[f"calls/{group}.py"] = render.group_module(group, mine, where, shapes)
    texts["calls/__init__.py"] = f'"""The calls of the API, by group. {render.WRITTEN}"""\n'
    texts["calls/groups.py"] = render.groups(groups)
    texts["problems.py"] = render.problems()
    return _formatted(texts)


def _formatted(texts: Mapping[str, str]) -> dict[str, str]:
    """Let ruff sort imports, leave out what is not used, and break lines."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    project = str(Path(__file__).parents[2] / "pyproject.toml")
    # By name: whether a module is there yet must make no difference.
    ours = 'lint.isort.known-first-party=["postdate"]'
    settings = ["--quiet", "--no-cache", "--config", project]
    with tempfile.TemporaryDirectory() as directory:
        for name, text in texts.items():
            path = Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        check = ["check", "--fix-only", "--select", "I,F401", "--config", ours]
        for command in (check, ["format"]):
            subprocess.run([ruff, *command, *settings, directory], check=True)
        return {name: Path(directory, name).read_text() for name in sorted(texts)}


def stale() -> list[str]:
    """Name the generated files that differ from what the API says, or belong to nothing."""
    wanted = modules()
    found = {
        str(path.relative_to(CLIENT)): path.read_text()
        for folder in FOLDERS
        for path in (CLIENT / folder).glob("*.py")
    }
    found["problems.py"] = (CLIENT / "problems.py").read_text()
    return sorted(p for p in {*wanted, *found} if wanted.get(p) != found.get(p))


def main() -> None:
    """Write every generated module, and take away what is left of others."""
    for folder in FOLDERS:
        (CLIENT / folder).mkdir(exist_ok=True)
        for path in (CLIENT / folder).glob("*.py"):
            if str(path.relative_to(CLIENT)) not in modules():
                path.unlink()
    for name, text in modules().items():
        (CLIENT / name).write_text(text)


if __name__ == "__main__":
    main()
