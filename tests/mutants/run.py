"""Seed each bug into a copy of the project, run its tests there, and say which layer caught it.

`make mutants` runs all of them; `python -m mutants.run name …` some. None may survive.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mutants.catalog import MUTANTS
from mutants.mutant import ROOT, SOURCE, Mutant

AT_ONCE = 2
SECONDS_MOST = 240
FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+)", re.MULTILINE)
TESTS_FAILED = 1


class Verdict(NamedTuple):
    """What came of one bug."""

    mutant: Mutant
    caught: bool
    by: str
    seconds: float


def copy(target: Path) -> None:
    """Copy the project by links: what is changed is written anew, and the original stays."""
    for part in ("src", "tests", "examples", "docs"):
        shutil.copytree(
            ROOT / part,
            target / part,
            copy_function=os.link,
            ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"),
        )
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        os.link(ROOT / name, target / name)


def pytest(directory: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests in a directory, on its own sources; give the exit code and what was printed."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-m", "not soak", "-p", "no:cacheprovider",
        "-p", "no:xdist", *(f"tests/{each}" for each in tests),
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(directory / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command, cwd=directory, env=env, capture_output=True, text=True, check=False,
            timeout=SECONDS_MOST,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, f"FAILED tests/{tests[0]} (hung)"
    return ran.returncode, ran.stdout + ran.stderr


def judge(mutant: Mutant) -> Verdict:
    """Seed one bug and run its tests."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="pdm", dir=ROOT / "build") as name:
        directory = Path(name)
        copy(directory)
        path = directory / SOURCE / mutant.path
        text = mutant.changed(path.read_text())
        path.unlink()
        path.write_text(text)
        code, said = pytest(directory, mutant.tests)
    found = FAILED.search(said)
    caught = code == TESTS_FAILED and found is not None
    by = found[1] if found else said.strip().splitlines()[-1] if said.strip() else "nothing said"
    return Verdict(mutant, caught, by, time.monotonic() - began)


def baseline(mutants: Sequence[Mutant]) -> bool:
    """Run every test that is to catch something, without any bug: they must pass."""
    wanted = sorted({each for mutant in mutants for each in mutant.tests})
    code, said = pytest(ROOT, wanted)
    if code:
        print(said)
        print("these tests fail without any bug: they catch nothing")
    return not code


def main(names: Sequence[str]) -> int:
    """Judge the bugs of these names, or all; give the exit code."""
    mutants = [each for each in MUTANTS if not names or each.name in names]
    (ROOT / "build").mkdir(exist_ok=True)
    if not baseline(mutants):
        return 1
    verdicts = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(judge, mutants):
            verdicts.append(verdict)
            word = "caught" if verdict.caught else "SURVIVED"
            print(
                f"{word:9}{verdict.mutant.name:42}{verdict.mutant.layer:10}"
                f"{verdict.seconds:5.0f} s  {verdict.by}",
                flush=True,
            )
    caught = sum(verdict.caught for verdict in verdicts)
    layers = Counter(verdict.mutant.layer for verdict in verdicts if verdict.caught)
    print(f"\n{caught} of {len(verdicts)} caught: {dict(layers.most_common())}")
    return int(caught < len(verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
