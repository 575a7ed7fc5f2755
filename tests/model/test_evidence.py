"""`make evidence`: rounds run once, alone, and what did not run is never called good."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from postdate_lab.evidence import record, run
from postdate_lab.evidence.page import bound, page
from postdate_lab.evidence.part import EvidencePart, Round, Run, count_log, count_tests
from postdate_lab.evidence.parts import PARTS, RUNS_CHAOS
from postdate_lab.evidence.record import Record, RoundCount

ROOT = Path(__file__).parents[2]
SUITE = """<testsuites><testsuite>
<testcase classname="tests.faults.test_a" name="one"/>
<testcase classname="tests.faults.test_a" name="two"><failure message="no"/></testcase>
<testcase classname="tests.faults.test_a" name="three"><skipped message="no Citus"/></testcase>
</testsuite></testsuites>"""


def part(words: str, *, tries: int = 5, rounds: int = 1, scales: bool = False) -> EvidencePart:
    """A part that runs a line of Python in its directory."""

    def runs(place: Round) -> list[Run]:
        return [Run([sys.executable, "-c", words], {"PLACE": str(place.home)})]

    return EvidencePart(
        name="sample", tries="A sample.", runs=runs, scales=scales,
        count=lambda _: RoundCount(tries=tries, of="things"), rounds=lambda _: rounds,
    )  # fmt: skip


ONCE = "import os; open(os.environ['PLACE'] + '/../ran', 'a').write('x')"


@pytest.fixture(autouse=True)
def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "commit", lambda _: "12345678")


def ran(wanted: EvidencePart, home: Path, seed: int = 1, minutes: float = 1) -> list[Record]:
    return list(run.run_part(wanted, home, ROOT, seed, minutes))


def test_a_round_with_a_record_is_not_run_again(tmp_path: Path) -> None:
    for _ in range(2):
        assert [each.verdict for each in ran(part(ONCE, rounds=2), tmp_path)] == ["held", "held"]
    assert (tmp_path / "ran").read_text() == "xx"


def test_a_round_of_another_commit_or_scale_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaling = part(ONCE, scales=True)
    ran(scaling, tmp_path)
    ran(scaling, tmp_path, minutes=2)
    ran(scaling, tmp_path, seed=9, minutes=2)
    monkeypatch.setattr(record, "commit", lambda _: "87654321")
    ran(scaling, tmp_path, seed=9, minutes=2)
    assert (tmp_path / "ran").read_text() == "xxxx"


def test_a_changed_tree_is_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "commit", lambda _: "12345678+changed")
    for _ in range(2):
        ran(part(ONCE), tmp_path)
    assert (tmp_path / "ran").read_text() == "xx"


def test_a_round_that_was_broken_off_has_no_record_and_runs_again(tmp_path: Path) -> None:
    next(run.run_part(part(ONCE, rounds=2), tmp_path, ROOT, 1, 1))
    (tmp_path / "sample-2").mkdir()
    (tmp_path / "sample-2" / "record.json.part").write_text("{")
    assert len(ran(part(ONCE, rounds=2), tmp_path)) == 2
    assert (tmp_path / "ran").read_text() == "xx"


def test_it_runs_alone(tmp_path: Path) -> None:
    with run.alone(tmp_path):
        with pytest.raises(run.BesideAnotherError), run.alone(tmp_path):
            pass
    with run.alone(tmp_path):
        pass


def test_the_lock_of_a_killed_run_holds_nobody_up(tmp_path: Path) -> None:
    words = (
        "import sys, time; from pathlib import Path; from postdate_lab.evidence import run\n"
        "with run.alone(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", words, str(tmp_path)], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(run.BesideAnotherError), run.alone(tmp_path):
            pass
        other.kill()
    with run.alone(tmp_path):
        pass


@pytest.mark.parametrize(
    ("codes", "counted", "said"),
    [
        ([0], RoundCount(tries=3), "held"),
        ([0], RoundCount(tries=0, skipped=["a: no Citus"]), "not run"),
        ([1], RoundCount(tries=3), "violated"),
        ([None], RoundCount(tries=3), "violated"),
        ([0, 7], RoundCount(tries=3), "violated"),
        ([0], RoundCount(tries=3, wrong=1), "violated"),
    ],
)
def test_a_verdict(codes: list[int | None], counted: RoundCount, said: str) -> None:
    assert record.verdict(codes, counted) == said


def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    words = "import os; os.system('sleep 60')"
    assert run._run(Run([sys.executable, "-c", words]), ROOT, tmp_path / "out", 1.0) is None


def test_what_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    def count(home: Path) -> RoundCount:
        raise ValueError(home.name)

    [found] = ran(msgspec.structs.replace(part(""), count=count), tmp_path)
    assert found.verdict == "violated"


def test_tests_are_counted_and_skipped_ones_named(tmp_path: Path) -> None:
    (tmp_path / "tests.xml").write_text(SUITE)
    found = count_tests(tmp_path)
    assert (found.tries, found.wrong) == (2, 1)
    assert found.skipped == ["test_a::three: no Citus"]
    assert found.notes == ["test_a::two failed"]


def test_a_log_is_counted_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"kills": 3, "wrong": []}\n{"kills": 4, "wrong": ["x"]}\n')
    found = count_log(tmp_path, "log", "kills", "kills")
    assert (found.tries, found.wrong, found.notes) == (7, 1, ["x"])


def test_a_failed_test_beside_a_clean_log_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "tests.xml").write_text(SUITE)
    (tmp_path / "log").write_text('{"kills": 3, "wrong": []}\n')
    assert count_log(tmp_path, "log", "kills", "kills").wrong == 1


def test_the_bound_is_three_by_n_and_nothing_is_said_of_what_went_wrong() -> None:
    assert bound(3_000_000, 0) == "1.0e-06"
    assert bound(10, 1) == "none"
    assert bound(0, 0) == "none"


def test_the_page_says_what_held_what_did_not_and_what_was_not_run(tmp_path: Path) -> None:
    [held] = ran(part(""), tmp_path)
    bad = msgspec.structs.replace(
        held, part="other", verdict="violated", exit_codes=[None],
        counted=RoundCount(tries=9, of="kills", wrong=2, notes=["two were lost"],
                        skipped=["a::b: no Citus"]),
    )  # fmt: skip
    said = page([held, bad], {"sample": "A sample.", "other": "Another.", "citus": "Shards."})
    assert "| sample | A sample. | 5 things | 0 | 6.0e-01 | `12345678` | 2 | 0.0 | held |" in said
    assert "| other | Another. | 9 kills | 2 | none |" in said
    assert "two were lost (exit codes took too long)" in said
    assert "- citus: whole part" in said
    assert "- other: 1 skipped, no Citus" in said


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense is no part: known are cuts, kills"):
        run.chosen(PARTS, ["chaos", "nonsense"])
    assert [each.name for each in run.chosen(PARTS, ["chaos", "cuts"])] == ["cuts", "chaos"]


def test_every_part_names_files_that_exist(tmp_path: Path) -> None:
    place = Round(number=1, rounds=1, seed=1, minutes=1, home=tmp_path)
    words = [word for each in PARTS for one in each.runs(place) for word in one.words]
    named = [word for word in words if word.startswith("tests/")]
    assert len(named) > 50
    assert [word for word in named if not (ROOT / word).exists()] == []


def test_every_test_of_faults_is_in_some_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    place = Round(number=1, rounds=1, seed=1, minutes=1, home=tmp_path)
    named = {word for each in PARTS for one in each.runs(place) for word in one.words}
    present = {f"tests/faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")}
    assert present - named == {RUNS_CHAOS}
