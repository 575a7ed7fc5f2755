"""`postdate chaos` itself: a small run with real processes, and a long one for `make soak`."""

import os
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conftest import scratch
from postdate_lab.chaos.collect import evidence_of
from postdate_lab.chaos.plan import ChaosPlan
from postdate_lab.chaos.report import ChaosReport, judge, markdown
from postdate_lab.chaos.run import conclude, run
from postdate_lab.second_checker import raw
from postdate_lab.second_checker.check import check
from support.broken_history import SEEDED, Seeded, sent_twice

SMALL = ChaosPlan(
    seed=7, seconds=5, rate=12, bulk=100, pause_seconds=1.0, apis=1, workers=1, settlers=1,
    publishers=1, faults=("kill", "cut", "lock", "backend", "table", "half_open", "guest"),
)  # fmt: skip


def keep(home: Path, seed: int) -> None:
    """Keep the history of a run that broke something where the next person looks for it."""
    target = Path("build") / f"chaos-{seed}"
    for name in ("history", "left"):
        shutil.copytree(home / name, target / name, dirs_exist_ok=True)
    for name in ("run.json", "columns.json", "report.md", "report.html"):
        shutil.copy(home / name, target / name)


def test_a_backlog_may_take_as_long_as_it_is_large() -> None:
    assert SMALL.calm_seconds(0) == SMALL.drain_seconds
    assert SMALL.calm_seconds(20_000) == SMALL.drain_seconds + 100


@pytest.fixture(scope="module")
async def ran() -> AsyncIterator[tuple[Path, ChaosReport]]:
    with scratch() as home:
        yield home, await run(SMALL, home)


async def test_a_small_run_does_everything_and_every_invariant_holds(
    ran: tuple[Path, ChaosReport],
) -> None:
    home, found = ran
    assert found.holds, markdown(found)
    assert found.figures["payments"] > 300
    assert found.figures["jobs"] > 300
    assert found.figures["faults"] > 0
    assert found.figures["faults that met nothing"] == 0
    assert found.figures["events verified"] > 0
    assert conclude(home) == found, "judged again, it is the same"
    assert SMALL.command() in (home / "report.html").read_text()


async def test_the_second_checker_agrees_about_the_directory_and_about_its_archive(
    ran: tuple[Path, ChaosReport], tmp_path: Path
) -> None:
    home, found = ran
    archive = tmp_path / "run.tar.xz"
    raw.pack(home, archive)
    for source in (home, archive):
        second = check(source)
        assert second.findings == []
        assert (second.payments, second.jobs) == (found.figures["payments"], found.figures["jobs"])


def copy_run(home: Path, target: Path) -> None:
    for part in ("history", "left"):
        shutil.copytree(home / part, target / part)
    for part in ("run.json", "columns.json"):
        shutil.copy(home / part, target / part)


@pytest.mark.parametrize("seeded", SEEDED, ids=lambda each: f"{each.invariant} {each.name}")
async def test_both_checkers_find_a_seeded_violation(
    ran: tuple[Path, ChaosReport], seeded: Seeded, tmp_path: Path
) -> None:
    copy_run(ran[0], tmp_path)
    seeded.seed(tmp_path)
    first, _ = judge(*evidence_of(tmp_path))
    assert seeded.invariant in {each.invariant for each in first.violations}
    assert seeded.invariant in {each.invariant for each in check(tmp_path).findings}


async def test_a_batch_that_was_acknowledged_twice_is_no_violation(
    ran: tuple[Path, ChaosReport], tmp_path: Path
) -> None:
    copy_run(ran[0], tmp_path)
    sent_twice(tmp_path)
    assert judge(*evidence_of(tmp_path))[0].violations == []
    assert check(tmp_path).findings == []


@pytest.mark.soak
async def test_a_long_run() -> None:
    seed = random.randrange(10**6)
    seconds = 60 * float(os.environ.get("POSTDATE_TEST_MINUTES", "10"))
    plan = ChaosPlan(seed=seed, seconds=seconds, rate=10, bulk=420, pause_seconds=3.5)
    with scratch() as home:
        found = await run(plan, home)
        print(markdown(found))
        if not found.holds:
            keep(home, seed)
        assert found.holds, markdown(found)
