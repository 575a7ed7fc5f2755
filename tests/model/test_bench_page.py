"""The page of `postdate bench --all`: what a reader is shown of the figures."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from postdate_lab.bench import everything
from postdate_lab.bench.arm import middle, or_missed
from postdate_lab.bench.page import BenchFacts, write
from postdate_lab.bench.testbed import Measure, at_least, median, plain

FACTS = BenchFacts("cmd", datetime(2026, 1, 2, 3, 4, tzinfo=UTC), 11.6, 0.25, "abc1234")
SVG = "{http://www.w3.org/2000/svg}"


def rates(*names: str) -> list[Measure]:
    return [
        median("execute", name, [n * 100.0, n * 300.0, n * 200.0], "jobs/s")
        for n, name in enumerate(names, 1)
    ]


def test_a_median_keeps_its_extremes() -> None:
    figure = median("execute", "postdate", [3.0, 1.0, 2.5], "jobs/s")
    assert (figure.value, figure.low, figure.high) == (2.5, 1.0, 3.0)


def test_rates_of_several_are_drawn_and_a_missed_target_stands_out(tmp_path: Path) -> None:
    missed = at_least("execute", "postdate : a<b", 1.0, 2)
    files = write(tmp_path / "f.md", {"jobs": [*rates("a<b", "postdate", "c"), missed]}, FACTS)
    page, chart = files
    text = page.read_text()
    assert f"![execute: jobs/s]({chart.name})" in text
    assert "| postdate | 400 jobs/s | 200 to 600 |  |  |" in text
    assert "| postdate : a<b | 1 x |  | >= 2 | **no** |" in text
    drawn = ET.fromstring(chart.read_text())
    bars = drawn.findall(f"{SVG}rect")
    assert [bar.get("class") for bar in bars] == ["bar", "ours", "bar"]
    widths = [float(bar.get("width", 0)) for bar in bars]
    assert widths == sorted(widths, reverse=True)


def test_two_rates_need_no_chart(tmp_path: Path) -> None:
    late = plain("lateness", "p50", 3.0, "ms")
    files = write(tmp_path / "f.md", {"jobs": [*rates("a", "b"), late]}, FACTS)
    assert files == [tmp_path / "f.md"]


def test_the_page_says_where_it_was_measured_and_names_missed_goals_first(tmp_path: Path) -> None:
    held, missed = at_least("a", "fast", 3.0, 2), at_least("b", "slow", 1.0, 2)
    [page] = write(tmp_path / "f.md", {"jobs": [held, missed]}, FACTS)
    text = page.read_text()
    assert "Measured by `cmd` on 2026-01-02 03:04 UTC, commit abc1234" in text
    assert "load average 0.2 before it began, 12 minutes" in text
    assert "1 of 2 held." in text
    assert text.index("| jobs | b | slow | 1 x | >= 2 | **no** |") < text.index("| jobs | a |")


def test_the_middle_round_decides_whether_a_goal_is_held() -> None:
    rounds = [[at_least("a", "fast", value, 2, "x")] for value in (5.0, 1.0, 1.5)]
    [figure] = middle(rounds)
    assert (figure.value, figure.low, figure.high, figure.held) == (1.5, 1.0, 5.0, False)


async def test_an_arm_that_fails_is_one_cell_of_the_table() -> None:
    async def failing() -> list[Measure]:
        raise RuntimeError("first | line\n  second " + "x" * 1000)

    [missed] = await or_missed("execute", failing())
    assert missed.what.startswith("failed: RuntimeError: first / line second xxx")
    assert len(missed.what) < 400


async def test_what_was_measured_is_kept_when_a_run_is_broken_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def measured(_: object) -> list[Measure]:
        return rates("a")

    async def broken_off(_: object) -> list[Measure]:
        raise KeyboardInterrupt

    suites = {"jobs": SimpleNamespace(run=measured), "payments": SimpleNamespace(run=broken_off)}
    monkeypatch.setattr(everything, "SUITES", suites)
    monkeypatch.setattr(everything, "plan_suites", lambda _: dict.fromkeys(suites))
    kept: list[list[str]] = []
    with pytest.raises(KeyboardInterrupt):
        await everything.run(everything.WholePlan(), lambda found: kept.append(list(found)))
    assert kept == [["jobs"]]
