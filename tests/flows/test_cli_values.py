"""What the commands take, and what they refuse: numbers are numbers, words are listed."""

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import Api
from postdate.cli import main
from postdate.cli.number import PARAMETER, convert, convert_seconds
from support.command import commands, run_command

COMMAND = Path(sys.executable).with_name("postdate")


async def run(api: Api, *words: str) -> tuple[int, str, str]:
    """Run a command with --json against the server of the tests."""
    ran = await run_command(api, *words, "--json")
    return ran.code, ran.text, ran.err


MISTAKES = [
    (["payment", "schedule", "a", "b", "25.50", "--delay-seconds", "5"], "'25.50' is not a whole"),
    (["payment", "schedule", "a", "b", "0x10", "--delay-seconds", "5"], "'0x10' is not a whole"),
    (["account", "adjust", "a", "1_000", "--reason", "x"], "'1_000' is not a whole"),
    (["account", "create", "a", "--max-amount", "1e3"], "'1e3' is not a whole number"),
    (["job", "create", "--delay-seconds", "nan"], "'nan' is not a number such as 2.5"),
    (["schedule", "create", "--every-seconds", "1.5"], "'1.5' is not a whole number"),
    (["job", "create", "--max-attempts", "0b11"], "'0b11' is not a whole number"),
    (["job", "list", "--limit", "ten"], "'ten' is not a whole number"),
    (["job", "list", "--status", "DONE"], 'Choose from: "PENDING", "READY", "RUNNING"'),
    (["schedule", "create", "--cron", "@daily", "--roll", "next"], "modified_following"),
    (["job", "resolve", "j", "maybe"], '"completed", "failed", "retry"'),
    (["lane", "change", "mail", "--max-running", "many"], "not a whole number such as 25 or none"),
    (["lane", "change", "mail"], "give at least one option to change"),
    (["job", "create", "--url", "http://x", "--queue", "q"], "one of --url, --destination"),
    (["payment", "schedule", "a", "b", "5"], "give either --scheduled-time or --delay-seconds"),
    (["schedule", "create", "--cron", "@daily", "--amount", "5"], "a payment needs --from-account"),
    (["job", "change", "j", "--retry", "none", "--backoff", "fixed"], "--retry is no object"),
    (["payment", "schedule", "a", "b", "--delay-seconds", "5"], "--amount is missing"),
    (["job", "create"], "say what the job is"),
    (["job", "create", "--lane", "a", "--unique", "r7"], "--unique: 'r7' is not JSON"),
    (["job", "create", "--lane", "a", "--body", "r7"], "'r7' is not JSON"),
    (["destination", "create", "--body", "[]"], "the body is a JSON object"),
    (["lane", "pause", "list", "--watch"], "--watch repeats commands that only read"),
    (["job", "create", "--at", "soon"], "'soon' is no time: write `tomorrow 9:00`"),
    (["job", "create", "--in", "5m", "--at", "9:00"], "give either --run-at or --delay-seconds"),
    (["job", "create", "--lane", "a", "--timezone", "Asia/Tokyo"], "--timezone belongs to --at"),
    (["job", "create", "--at", "9:00", "--timezone", "Mars"], "'Mars' is no time zone"),
    (["api", "list_halt"], "did you mean list_halts?"),
    (["api", "get_account"], "needs --path account_id=…"),
]


@pytest.mark.parametrize(
    ("words", "says"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES]
)
def test_a_mistake_is_told_before_anything_is_sent(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTDATE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("POSTDATE_API_KEY", "k")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_every_number_of_every_command_is_strict() -> None:
    main.load_all()
    assert main.app.default_parameter is PARAMETER
    own = [
        f"{where} {argument.name}"
        for where, command in commands(main.app)
        for argument in command.assemble_argument_collection(
            default_parameter=main.app.default_parameter
        )
        if argument.parameter.converter not in {None, convert, convert_seconds}
    ]
    assert own == []


@pytest.mark.parametrize("words", [[], ["job"], ["job", "create"], ["lane", "change"]])
def test_help_names_the_options_that_every_command_takes(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main.load_all()
    main.app([*words, "--help"], result_action="return_value")
    said = capsys.readouterr().out
    for option in ("-o", "--output", "--time", "--no-input", "--watch"):
        assert option in said


async def test_values_that_the_server_refuses_exit_with_2(api: Api) -> None:
    code, _, err = await run(api, "payment", "schedule", "a", "a", "5", "--delay-seconds", "5")
    assert code == 2
    assert "[" in err


async def test_a_job_takes_what_the_api_takes(api: Api) -> None:
    code, out, err = await run(
        api, "job", "create", "--lane", "full", "--run-at", "2031-01-01T00:00:00Z",
        "--max-attempts", "3", "--backoff", "fixed", "--initial-seconds", "2.5",
        "--timeout-seconds", "9", "--spread-seconds", "60", "--metadata", '{"kind": "x"}',
        "--description", "d", "--expires-at", "2031-02-01T00:00:00Z",
    )  # fmt: skip
    assert code == 0, err
    job = msgspec.json.decode(out)
    assert job["due_at"] == "2031-01-01T00:00:00Z"
    assert job["retry"] == {"max_attempts": 3, "backoff": "fixed", "initial_seconds": 2.5}
    assert (job["timeout_seconds"], job["spread_seconds"]) == (9, 60)
    assert (job["metadata"], job["description"]) == ({"kind": "x"}, "d")


async def test_calendars_lanes_and_schedules_are_edited(api: Api) -> None:
    async def done(*words: str) -> Any:
        code, out, err = await run(api, *words)
        assert code == 0, err
        return msgspec.json.decode(out)

    await done("calendar", "put", "berlin", "--holiday", "2031-01-01", "--weekend", "7")
    assert (await done("calendar", "get", "berlin"))["weekend"] == [7]
    made = await done(
        "schedule", "create", "--name", "rent", "--cron", "0 9 1 * *", "--calendar", "berlin",
        "--roll", "following", "--lane", "edited", "--payload", '{"n": 1}',
    )  # fmt: skip
    assert made["template"]["job"]["payload"] == {"n": 1}
    schedule_id = made["schedule_id"]
    changed = await done("schedule", "change", schedule_id, "--cron", "0 10 1 * *")
    assert (changed["cron"], changed["version"]) == ("0 10 1 * *", 2)
    await done("job", "create", "--lane", "edited", "--delay-seconds", "60")
    assert (await done("lane", "change", "edited", "--max-running", "7"))["max_running"] == 7
    assert (await done("lane", "change", "edited", "--max-running", "none"))["max_running"] is None
    listed = await done("api", "list_schedules", "--query", "limit=1")
    assert len(listed["schedules"]) == 1


async def test_a_list_fits_an_ordinary_terminal(api: Api) -> None:
    await run(api, "job", "create", "--lane", "narrow", "--delay-seconds", "60")
    out = await asyncio.to_thread(_on_a_terminal, api, ["job", "list", "--lane", "narrow"])
    lines = [line for line in out.splitlines() if line.strip()]
    assert "job_id" in lines[1]
    assert "status" in lines[1]
    assert max(map(len, lines)) <= 80


def _on_a_terminal(api: Api, words: list[str]) -> str:
    ours, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {"POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key, "COLUMNS": "80"}
    environ |= {"TERM": "dumb", "NO_COLOR": "1"}
    with subprocess.Popen([COMMAND, *words], env=environ, stdout=theirs) as process:
        os.close(theirs)
        found = b""
        try:
            while piece := os.read(ours, 65536):
                found += piece
        except OSError:  # the other end has closed it
            pass
        process.wait(30)
    os.close(ours)
    return found.decode()
