"""`postdate chaos` itself: a small run with real processes, and a long one for `make soak`."""

import os
import random
from pathlib import Path

import pytest

from conftest import scratch
from postdate.chaos.plan import ChaosPlan
from postdate.chaos.report import markdown
from postdate.chaos.run import conclude, run

SMALL = ChaosPlan(
    seed=7, seconds=5, rate=12, apis=1, workers=1, settlers=1, publishers=1,
    faults=("kill", "cut", "lock"),
)  # fmt: skip


def keep(home: Path, seed: int) -> None:
    """Keep the history of a run that broke something where the next person looks for it."""
    target = Path("build") / f"chaos-{seed}"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("history.jsonl", "evidence.json", "report.md", "report.html"):
        (target / name).write_bytes((home / name).read_bytes())


async def test_a_small_run_does_everything_and_every_invariant_holds() -> None:
    with scratch() as home:
        found = await run(SMALL, home)
        assert found.holds, markdown(found)
        assert found.figures["payments"] > 0
        assert found.figures["jobs"] > 0
        assert found.figures["faults"] > 0
        assert found.figures["events verified"] > 0
        assert conclude(home) == found, "judged again, it is the same"
        assert SMALL.command() in (home / "report.html").read_text()


@pytest.mark.soak
async def test_a_long_run() -> None:
    seed = random.randrange(10**6)
    plan = ChaosPlan(seed=seed, seconds=60 * float(os.environ.get("POSTDATE_TEST_MINUTES", "10")))
    with scratch() as home:
        found = await run(plan, home)
        print(markdown(found))
        if not found.holds:
            keep(home, seed)
        assert found.holds, markdown(found)
