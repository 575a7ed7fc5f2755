"""Seed each bug into a copy of the project, run its tests there, and say which layer caught it.

`make mutants` runs all of them, `make mutants SLICE=2/5` the second fifth, and
`make mutants NAMES="token_reused"` those named. None may survive. What came of each is kept in
`build/mutants.json`, from which `PYTHONPATH=tests python -m mutants.page` writes the docs page.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mutants.catalog import MUTANTS
from mutants.mutant import ROOT, Mutant

AT_ONCE = 2
SECONDS_MOST = 600
"""What takes longer counts as caught: long enough that a busy machine catches nothing."""
FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+)", re.MULTILINE)
TESTS_FAILED = 1
SLICE = re.compile(r"(\d+)/(\d+)")
KEPT = ROOT / "build" / "mutants.json"


ALONE = f"""import sys
sys.path[:] = [path for path in sys.path if not path.startswith({str(ROOT)!r} + "/")
               or "/build/pdm" in path or "/.venv/" in path]
"""
"""What every Python of a copy does first: it finds the package in the copy and nowhere else."""


class Verdict(NamedTuple):
    """What came of one bug."""

    mutant: Mutant
    caught: bool
    by: str
    seconds: float


def copy(target: Path) -> None:
    """Copy the project by links: what is changed is written anew, and the original stays."""
    for part in ("src", "packages", "tools", "tests", "examples", "docs", "deploy"):
        shutil.copytree(
            ROOT / part,
            target / part,
            copy_function=os.link,
            ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"),
        )
    for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        os.link(ROOT / name, target / name)
    (target / "src" / "sitecustomize.py").write_text(ALONE)


def pytest(directory: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests in a directory, on its own sources; give the exit code and what was printed."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-x", "-m", "not soak", "-p", "no:cacheprovider",
        "-p", "no:xdist", *(f"tests/{each}" for each in tests),
    ]  # fmt: skip
    sources = ("packages/client/src", "src", "packages/lab/src")
    path = os.pathsep.join(str(directory / source) for source in sources)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(
            command, cwd=directory, env=env, capture_output=True, text=True, check=False,
            timeout=SECONDS_MOST,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, f"FAILED tests/{tests[0].partition('::')[0]}::never_ended"
    return ran.returncode, ran.stdout + ran.stderr


def judge(mutant: Mutant) -> Verdict:
    """Seed one bug and run its tests."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="pdm", dir=ROOT / "build") as name:
        directory = Path(name)
        copy(directory)
        path = mutant.file(directory)
        text = mutant.changed(path.read_text())
        path.unlink()
        path.write_text(text)
        code, said = pytest(directory, mutant.tests)
    found = FAILED.search(said)
    caught = code == TESTS_FAILED and found is not None
    by = found[1] if found else said.strip().splitlines()[-1] if said.strip() else "nothing said"
    return Verdict(mutant, caught, by, time.monotonic() - began)


def baseline(mutants: Sequence[Mutant]) -> set[str]:
    """Run every test that is to catch something, without any bug; return the files that fail."""
    by_file: dict[str, set[str]] = defaultdict(set)
    for each in {test for mutant in mutants for test in mutant.tests}:
        by_file[each.partition("::")[0]].add(each)
    wanted = {name: [name] if name in tests else sorted(tests) for name, tests in by_file.items()}
    failed: set[str] = set()
    copied = TemporaryDirectory(prefix="pdm", dir=ROOT / "build")
    with copied as directory, ThreadPoolExecutor(AT_ONCE) as pool:
        copy(Path(directory))
        results = pool.map(partial(pytest, Path(directory)), wanted.values())
        for name, (code, said) in zip(wanted, results, strict=True):
            if code:
                failed.add(name)
                print(said)
                print(f"{name} fails without any bug: it catches nothing", flush=True)
    return failed


def chosen(words: Sequence[str]) -> list[Mutant]:
    """Give the bugs that are meant: all, those named, or one slice of all (`2/5`)."""
    if words and (part := SLICE.fullmatch(words[0])):
        number, count = int(part[1]), int(part[2])
        return list(MUTANTS)[number - 1 :: count]
    known = {each.name: each for each in MUTANTS}
    return [known[word] for word in words] or list(MUTANTS)


def keep(verdicts: Sequence[Verdict]) -> None:
    """Keep what came of these beside what came of others before."""
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for each in verdicts:
        found = {"caught": each.caught, "by": each.by, "seconds": round(each.seconds)}
        known[each.mutant.name] = found
    KEPT.write_text(json.dumps(known, indent=1, sort_keys=True))


def main(words: Sequence[str]) -> int:
    """Judge the bugs that these words mean; give the exit code."""
    mutants = chosen(words)
    KEPT.parent.mkdir(exist_ok=True)
    failed = baseline(mutants)
    judged = [m for m in mutants if not any(t.partition("::")[0] in failed for t in m.tests)]
    verdicts = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(judge, judged):
            verdicts.append(verdict)
            keep([verdict])
            word = "caught" if verdict.caught else "SURVIVED"
            print(
                f"{word:9}{verdict.mutant.name:42}{verdict.mutant.layer:10}"
                f"{verdict.seconds:5.0f} s  {verdict.by}",
                flush=True,
            )
    caught = sum(verdict.caught for verdict in verdicts)
    layers = Counter(verdict.mutant.layer for verdict in verdicts if verdict.caught)
    print(f"\n{caught} of {len(mutants)} caught: {dict(layers.most_common())}")
    return int(caught < len(mutants))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
