"""The screen of `postdate top` without a terminal: pages and keys in, rows and wishes out."""

import io
from typing import Any

import cyclopts
import pytest
from rich.console import Console

from postdate.cli import output, vitals_page, watch
from postdate.cli.top_facts import (
    TenantFacts,
    destination_lines,
    failure_lines,
    money_line,
)
from postdate.cli.top_picture import duration, sparkline
from postdate.cli.top_screen import LaneAction, Screen
from postdate.cli.vitals_page import VitalsPage, parse, quantile


def lane(name: str, ready: int, **more: Any) -> dict[str, Any]:
    row = {"lane": name, "ready": ready, "running": 0, "pending": 0, "unknown": 0}
    return {**row, "paused": False, "paused_note": None, **more}


def page(*lanes: dict[str, Any]) -> VitalsPage:
    return vitals_page.page("http://x", {}, {}, 1.0, list(lanes))


def typed(screen: Screen, text: str) -> LaneAction | None:
    found = None
    for key in text:
        found = screen.handle_key(key) or found
    return found


def names(screen: Screen) -> list[str]:
    return [row["lane"] for row in screen.rows()]


def test_the_cursor_follows_its_lane_and_not_its_row() -> None:
    screen = Screen()
    screen.learn(page(lane("mail", 5), lane("sms", 3)))
    typed(screen, "jj")
    assert screen.cursor == "sms"
    screen.learn(page(lane("sms", 9), lane("mail", 5)))
    assert (names(screen), screen.cursor) == (["sms", "mail"], "sms")
    assert typed(screen, "Py") == LaneAction("pause", "sms")


def test_the_filter_is_typed_and_given_up() -> None:
    screen = Screen()
    screen.learn(page(lane("mail", 5), lane("sms", 3)))
    typed(screen, "/sq\x7f")
    assert names(screen) == ["sms"]
    typed(screen, "\r")
    assert names(screen) == ["sms"]
    typed(screen, "/x\x1b")
    assert names(screen) == ["mail", "sms"]


def test_s_sorts_and_p_freezes() -> None:
    screen = Screen()
    screen.learn(page(lane("a", 1, running=9), lane("b", 2)))
    assert names(screen) == ["b", "a"]
    typed(screen, "s")
    assert names(screen) == ["a", "b"]
    typed(screen, "p")
    screen.learn(page(lane("new", 1)))
    assert names(screen) == ["a", "b"]
    typed(screen, "p")
    screen.learn(page(lane("new", 1)))
    assert names(screen) == ["new"]


def test_a_change_is_asked_about_and_any_other_key_means_no() -> None:
    screen = Screen()
    screen.learn(page(lane("a", 1)))
    assert typed(screen, "jPn") is None
    assert typed(screen, "Ry") == LaneAction("resume", "a")


def test_read_only_changes_nothing() -> None:
    screen = Screen(read_only=True)
    screen.learn(page(lane("a", 1)))
    assert typed(screen, "jPy") is None
    assert "--read-only" in screen.message


def test_it_can_be_drawn_and_left() -> None:
    screen = Screen()
    console = Console(file=io.StringIO(), width=120)
    console.print(screen.draw())
    screen.learn(page(lane("mail", 5, paused=True, paused_note="rest [/soon]")))
    screen.mark_stale("nobody answers")
    console.print(screen.draw())
    assert isinstance(console.file, io.StringIO)
    drawn = console.file.getvalue()
    assert all(
        text in drawn for text in ("mail", "rest [/soon]", "payment", "stale: nobody answers")
    )
    typed(screen, "q")
    assert screen.left


def drawn(screen: Screen) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(screen.draw())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_money_failures_and_destinations_are_told_with_the_words_of_the_console() -> None:
    job = {"destination": {"type": "webhook", "name": "legacy-erp"}, "code": "http_500"}
    other = {"destination": {"type": "webhook", "url": "https://x.example/a"}, "code": None}
    paid = {"amount": 12_550, "currency": "EUR"}
    facts = TenantFacts(
        failures=failure_lines([job, job, other]),
        failures_at_least=True,
        money=[
            money_line("wait for approval", [paid, paid, {"amount": 7, "currency": None}], True),
            money_line("broken", [], False),
        ],
        destinations=destination_lines(
            [
                {"name": "good", "status": "ACTIVE"},
                {"name": "crm", "status": "PAUSED", "paused_reason": "moving [today]"},
                {"name": "erp", "status": "FAILING", "failing_since": "2026-11-18T20:11:00Z"},
            ]
        ),
    )
    screen = Screen()
    screen.learn(vitals_page.page("u", {}, {}, 2.0, [], facts))
    seen = drawn(screen)
    assert "≥ 3 wait for approval (7 + 251.00 EUR)" in seen
    assert "broken" not in seen
    assert "destination crm is paused: moving [today]" in seen
    assert "destination erp is failing: no call has succeeded since 2026-11-18 20:11 UTC" in seen
    assert "jobs that failed for good, 24 h: ≥ 3" in seen
    assert [line.split() for line in seen.splitlines() if "legacy-erp" in line] == [
        ["│", "legacy-erp", "│", "≥", "2", "│", "http_500", "│"]
    ]
    assert "x.example" in seen
    for word in ("push", "pull", "parked", "backlog"):
        assert word not in seen


def test_a_terminal_does_not_obey_the_note_of_a_pause() -> None:
    screen = Screen()
    screen.learn(page(lane("mail", 5, paused=True, paused_note="off \x1b]0;evil\x07\x1b[2J")))
    file = io.StringIO()
    Console(file=file, width=100).print(screen.draw())
    assert "off \\x1b]0;evil\\x07\\x1b[2J" in file.getvalue()


def test_without_a_key_and_without_failures_the_screen_says_so() -> None:
    screen = Screen()
    screen.learn(page())
    assert "without a key: no money" in drawn(screen)
    screen.learn(vitals_page.page("u", {}, {}, 2.0, [], TenantFacts()))
    assert "none waits for a person, none failed" in drawn(screen)
    assert "jobs that failed for good, 24 h: none" in drawn(screen)


def test_the_question_mark_explains_keys_and_columns_until_a_key_is_pressed() -> None:
    screen = Screen()
    screen.learn(page(lane("mail", 5)))
    typed(screen, "?")
    assert "pause the lane under the cursor" in drawn(screen)
    assert typed(screen, "q") is None
    assert not screen.left
    assert "mail" in drawn(screen)


def test_numbers_stand_at_the_right_and_the_last_minute_is_a_sparkline() -> None:
    screen = Screen()
    for many in (0, 5, 10):
        text = METRICS % (many, many, many, many, 0)
        screen.learn(vitals_page.page("u", {}, parse([text]), 1.0, [lane("mail", 12_345)]))
    (line,) = [each for each in drawn(screen).splitlines() if "jobs that Postdate" in each]
    assert "▁▅█" in line
    assert "  12,345 │" in drawn(screen) or " 12,345 │" in drawn(screen)
    assert sparkline([]) == sparkline([0, 0]) == ""
    assert [duration(each) for each in (None, 0.005, 1.5, 1608.7, 90_000)] == [
        "", "5 ms", "1.5 s", "26.8 min", "1.0 d",
    ]  # fmt: skip


METRICS = """
# TYPE postdate_job_completed_total counter
postdate_job_completed_total{kind="push"} %d
# TYPE postdate_job_lateness_seconds histogram
postdate_job_lateness_seconds_bucket{kind="push",le="0.1"} %d
postdate_job_lateness_seconds_bucket{kind="push",le="1.0"} %d
postdate_job_lateness_seconds_bucket{kind="push",le="+Inf"} %d
# TYPE postdate_backlog gauge
postdate_backlog{kind="push"} 7
# TYPE postdate_job_failed_total counter
postdate_job_failed_total{kind="push",class="timeout"} %d
# TYPE postdate_nodes gauge
postdate_nodes{role="worker"} 0
# TYPE postdate_snapshot_pinned_seconds gauge
postdate_snapshot_pinned_seconds{kind="session",name="psql pid 7",login="ann"} 500
"""


def test_a_page_tells_rates_percentiles_and_warnings() -> None:
    before = parse([METRICS % (0, 0, 0, 0, 0)] * 2)
    after = parse([METRICS % (10, 9, 10, 10, 2)] * 2)
    shown = vitals_page.page("u", before, after, 2.0, [])
    push = shown.kinds[0]
    assert (push.backlog, push.per_second) == (7, 10.0)
    assert push.late_p50_seconds == pytest.approx(0.1 * 10 / 18)
    assert push.late_p99_seconds == pytest.approx(0.1 + 0.9 * 1.8 / 2)
    assert shown.rates["jobs completed"] == 10.0
    assert shown.failures == {"failed timeout": 2.0}
    assert shown.warnings == [
        "session psql pid 7 (ann) pins the oldest snapshot",
        "no live node has the role worker",
    ]


def test_a_quantile_beyond_the_last_bound_is_the_last_bound() -> None:
    assert quantile({1.0: 0.0, float("inf"): 5.0}, 0.5) == 1.0
    assert quantile({}, 0.5) is None


def test_the_form_is_taken_out_wherever_it_stands() -> None:
    assert output.take(["job", "-o", "csv", "list"]) == ["job", "list"]
    assert output.options().form == "csv"
    for words in (["--output=json"], ["--json"], ["-o", "json"]):
        assert output.take(["job", *words, "list"]) == ["job", "list"]
        assert output.wants_json()
    with pytest.raises(output.UsageError, match="takes one of"):
        output.take(["job", "list", "-o", "xml"])


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("json", '[\n  {\n    "a": 1,\n    "b": [\n      2\n    ]\n  }\n]\n'),
        ("jsonl", '{"a":1,"b":[2]}\n'),
        ("csv", "a,b\r\n1,[2]\r\n"),
    ],
)
def test_each_form_prints_the_same_data(
    form: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.take(["-o", form])
    output.show([{"a": 1, "b": [2]}])
    assert capsys.readouterr().out == expected


def test_an_empty_list_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "table"):
        output.take(["-o", form])
        output.show([])
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("[]\n", "none\n")


def test_only_what_reads_can_be_watched() -> None:
    words = output.take(["job", "cancel", "x", "--watch"])
    assert output.options().watch
    with pytest.raises(output.UsageError, match="only read"):
        watch.run(cyclopts.App(), words)
