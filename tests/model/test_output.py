import io

import pytest
from rich.console import Console

from postdate.cli.table import cell_text, print_rows, print_table

NAMES = ["payment_id", "from_account_id", "description"]
ROWS = [
    ["0190f3a2-0000-7003-8000-000000000001", "alice", "x" * 60],
    ["0190f3a2-0000-7003-8000-000000000002", "bob [the builder]", ""],
]


def _printed(*, terminal: bool, width: int, rows: list[list[str]]) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    print_table(console, NAMES, rows)
    return out.getvalue()


def test_a_table_that_fits_is_a_table() -> None:
    out = _printed(terminal=True, width=200, rows=ROWS)
    assert "┃ payment_id" in out
    assert "bob [the builder]" in out


def test_a_table_too_wide_for_the_terminal_stands_one_thing_below_the_other() -> None:
    out = _printed(terminal=True, width=60, rows=ROWS)
    for word in ("0190f3a2-0000-7003-8000-000000000001", "alice", "bob [the builder]"):
        assert word in out
    # Nothing is cut: what does not fit goes on in the next line.
    assert out.count("x") == 60
    assert "…" not in out
    assert out.count("description") == 1
    assert "\n\n" in out
    assert all(len(line) <= 60 for line in out.splitlines())


def test_a_program_that_reads_a_table_gets_all_of_it() -> None:
    out = _printed(terminal=False, width=60, rows=ROWS)
    assert "┃ payment_id" in out
    assert out.count("x") == 60
    assert "…" not in out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        ([], ""),
        (["jobs:read", "admin"], "jobs:read, admin"),
        ({"type": "worker"}, "type=worker"),
        ([{"n": 1}], "n=1"),
        (2500, "2500"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
    ],
)
def test_a_cell_has_no_python_in_it_and_no_instruction_to_a_terminal(
    value: object, text: str
) -> None:
    assert cell_text(value) == text


JOB, PAYMENT = "0190f3a2-0000-7003-8000-000000000001", "0190f3a2-0000-7003-8000-00000000abcd"


def _table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, terminal: bool
) -> list[str]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    rows = [{"job_id": JOB, "about": PAYMENT, "amount": n} for n in (5, 2500)]
    print_rows(rows, ("job_id", "amount", "about"), "iso")
    return capsys.readouterr().out.splitlines()[3:5]


def test_numbers_are_aligned_and_a_program_reads_whole_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = _table(monkeypatch, capsys, terminal=False)
    assert "│      5 │" in few
    assert "│   2500 │" in many
    assert few.count(JOB) == few.count(PAYMENT) == 1


def test_a_person_copies_the_own_id_and_reads_others_in_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few, _ = _table(monkeypatch, capsys, terminal=True)
    assert JOB in few
    assert "0190f3a2…abcd" in few
    assert PAYMENT not in few


def test_one_thing_and_what_lies_in_it_are_printed_in_units_of_its_currency(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lowest = {"at": "2026-11-23", "available": 249_750}
    points = [{"balance": 8_000_000}, {"balance": 12_550, "currency": None}]
    print_rows([{"currency": "EUR", "balance": 1, "lowest": lowest, "points": points}], (), "iso")
    printed = capsys.readouterr().out
    for text in ("0.01 EUR", "2,497.50 EUR", "80,000.00 EUR", "12550"):
        assert text in printed
    assert "249750" not in printed
