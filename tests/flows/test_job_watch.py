"""`postdate job watch`: what it prints while a worker works, and its exit code."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from conftest import Api, eventually
from flows.test_cancel_running import add, cancel, claim, say
from postdate.cli import job_watch
from postdate.cli.job_watch import JobFollower
from postdate.cli.output import show_line
from support.command import Ran, run_command


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_watch, "POLL_SECONDS", 0.02)


def lines(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.text.splitlines()]


async def test_each_change_is_a_line_of_json(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await add(api, "watched")
    shown: list[Any] = []

    def print_line(news: dict[str, Any], names: Sequence[str]) -> None:
        show_line(news, names)
        shown.append(news)

    monkeypatch.setattr(job_watch, "show_line", print_line)

    async def after(count: int) -> None:
        async def there() -> bool:
            return len(shown) == count

        await eventually(there)

    watching = asyncio.create_task(run_command(api, "job", "watch", job_id))
    await after(1)
    [lease] = await claim(api, "watched")
    await after(2)
    await say(api, "progress", lease, percent=40, note="half", log=["one", "two"])
    await after(3)
    await say(api, "progress", lease, log=["three"])
    await after(4)
    await say(api, "complete", lease, result={"rows": 3})
    ran = await watching
    assert ran.code == 0
    told = lines(ran)
    assert [each["status"] for each in told] == ["READY", *["RUNNING"] * 3, "COMPLETED"]
    assert [each.get("log") for each in told] == [None, None, ["one", "two"], ["three"], None]
    assert told[2]["percent"] == 40
    assert told[2]["note"] == "half"
    assert told[-1]["result"] == {"rows": 3}


@pytest.mark.parametrize(
    ("report", "code"),
    [
        ({"error": "no", "retryable": False}, 1),
        ({"error": "no", "unknown": True}, 9),
    ],
)
async def test_the_exit_code_is_that_of_the_outcome(
    api: Api, report: dict[str, Any], code: int
) -> None:
    job_id = await add(api, f"ends-{code}", retry={"on_unknown": "hold"})
    [lease] = await claim(api, f"ends-{code}")
    await say(api, "fail", lease, **report)
    ran = await run_command(api, "job", "watch", job_id)
    assert ran.code == code
    assert lines(ran)[0]["error"] == "no"


async def test_a_cancelled_job_and_no_job_have_their_own_codes(api: Api) -> None:
    job_id = await add(api, "gone", delay_seconds=60)
    await cancel(api, job_id)
    assert (await run_command(api, "job", "watch", job_id)).code == 8
    nothing = "01890000-0000-7000-8000-000000000000"
    assert (await run_command(api, "job", "watch", nothing)).code == 3


def test_lines_that_were_dropped_unseen_are_counted() -> None:
    follower = JobFollower()

    def look(attempt: int, log: list[str], dropped: int) -> tuple[Any, Any]:
        progress = {"log": log, "log_dropped": dropped}
        job = {"job_id": "x", "status": "RUNNING", "attempt": attempt, "progress": progress}
        news = follower.news(job) or {}
        return news.get("log"), news.get("log_dropped")

    assert look(1, ["a", "b"], 0) == (["a", "b"], None)
    assert look(1, ["a", "b"], 0) == (None, None)
    assert look(1, ["b", "c"], 1) == (["c"], None)
    assert look(1, ["g", "h"], 6) == (["g", "h"], 3)
    assert look(2, ["a"], 0) == (["a"], None)


async def test_a_terminal_shows_progress_and_result(api: Api) -> None:
    job_id = await add(api, "drawn")
    [lease] = await claim(api, "drawn")
    await say(api, "progress", lease, percent=40, note="[half]", log=["[one]"])
    await say(api, "complete", lease, result=7)
    shown = (await api.call("GET", f"/jobs/{job_id}")).body
    drawn = job_watch._drawn(shown)

    console = Console(width=100)
    with console.capture() as caught:
        console.print(drawn)
    text = caught.get()
    assert all(part in text for part in ("COMPLETED, attempt 1", "[half]", "7", job_id))


async def test_a_terminal_does_not_obey_what_a_worker_reports(
    api: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job_id = await add(api, "evil")
    [lease] = await claim(api, "evil")
    evil = "\x1b]0;evil\x07\x1b[2J\x9b31m\r"
    await say(api, "progress", lease, note=f"note {evil}", log=[f"log {evil}"])
    await say(api, "complete", lease, result={"a": evil})
    shown = (await api.call("GET", f"/jobs/{job_id}")).body
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with job_watch._screen() as draw:
        draw(shown, JobFollower().news(shown) or {})
    text = capsys.readouterr().out
    assert "log \\x1b]0;evil" in text
    assert "note \\x1b]0;evil" in text
    assert not [each for each in ("\x1b]0", "\x1b[2J", "\x9b", "\r\n") if each in text]
