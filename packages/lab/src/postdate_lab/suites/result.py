"""What came of a suite: how many cases agreed, and why each of the others did not."""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

DIRECTORY: Final = "POSTDATE_SUITES"
"""The variable that names a directory with the suites that no registry carries, by their names."""

FETCH_SECONDS: Final = 120


class SuiteResult(msgspec.Struct, kw_only=True):
    """The result of one suite."""

    name: str
    source: str
    cases: int = 0
    agreed: int = 0
    explained: dict[str, list[str]] = {}
    """The cases that differ, by the reason."""
    unexplained: list[str] = []
    missing: str = ""
    """Why it did not run."""

    def add(self, case: str, differs: str, reasons: Mapping[str, str]) -> None:
        """Add a case; `differs` is empty where it agreed, else it says how."""
        self.cases += 1
        text = f"{case}: {differs}"
        reason = next((why for why, found in reasons.items() if re.search(found, text)), None)
        if not differs:
            self.agreed += 1
        elif reason is None:
            self.unexplained.append(text)
        else:
            self.explained.setdefault(reason, []).append(case)


class MissingSuiteError(RuntimeError):
    """A suite is not to be had here."""


def directory(name: str) -> Path:
    """Return where a suite lies that no registry carries."""
    place = os.environ.get(DIRECTORY)
    found = Path(place, name) if place else None
    if found is None or not found.exists():
        raise MissingSuiteError(f"{DIRECTORY} names no directory with `{name}`")
    return found


def sdist(package: str, work: Path) -> Path:
    """Return the sources of the installed version, tests included, from the registry of pip."""
    wanted = f"{package}=={version(package)}"
    work.mkdir(parents=True, exist_ok=True)
    pip = [_pip(), "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    try:
        ran = subprocess.run(
            [*pip, "-d", str(work), wanted],
            capture_output=True, text=True, check=False, timeout=FETCH_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired as slow:
        raise MissingSuiteError(f"the registry did not answer for {package}") from slow
    archives = sorted(work.glob(f"{package.replace('-', '?')}-*.tar.gz"))
    if ran.returncode or not archives:
        raise MissingSuiteError(f"no registry here has the sources of {wanted}")
    with tarfile.open(archives[-1]) as archive:
        archive.extractall(work, filter="data")
    return work / archives[-1].name.removesuffix(".tar.gz")


def _pip() -> str:
    """Return a Python that has pip: that of the tools, because the environment has none."""
    tools = Path(".tools/bin/python")
    return str(tools) if tools.exists() else sys.executable


def page(results: Iterable[SuiteResult], head: str) -> str:
    """Write the page: the counts, then every difference with its reason."""
    rows, reasons, missing = [], [], []
    for each in results:
        if each.missing:
            missing.append(f"- {each.name}: {each.missing}")
            continue
        differ = sum(map(len, each.explained.values()))
        rows.append(
            f"| {each.name} | {each.source} | {each.cases:,} | {each.agreed:,} | {differ} "
            f"| {len(each.unexplained)} |"
        )
        for why, cases in each.explained.items():
            reasons.append(f"- {each.name}, {len(cases)}: {why}")
        reasons += [f"- **{each.name}, not explained**: {case}" for case in each.unexplained]
    return "\n".join([
        head, *rows, "", "## Each difference", "", *(reasons or ["None."]),
        "", "## Not run", "", *(missing or ["None."]), "",
    ])  # fmt: skip
