import io

from rich.console import Console

from postdate.cli.output import print_table

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
