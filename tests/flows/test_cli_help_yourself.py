"""Commands that help a newcomer: doctor, ensure, questions, `python -m postdate`, completion."""

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from conftest import Api
from postdate.cli import diagnosis
from postdate.cli.main import main
from postdate.client import Client
from support.command import run_command

NOW = datetime(2031, 1, 1, tzinfo=UTC)
HEALTHY: dict[str, Any] = {"ready": True, "reasons": [], "degraded": [], "overdue": []}
COMMAND = str(Path(sys.executable).with_name("postdate"))


async def states(api: Api, **settings: str) -> tuple[int, dict[str, Any]]:
    ran = await run_command(api, "doctor", "--json", **settings)
    return ran.code, {each["check"]: each for each in ran.out}


async def test_a_healthy_server_has_nothing_wrong(api: Api, tmp_path: Path) -> None:
    code, found = await states(api, POSTDATE_DATA_DIR=str(tmp_path / "none"))
    assert (code, {each["state"] for each in found.values()}) == (0, {"ok"})
    assert found.keys() == {
        "machine", "address", "server", "clock", "key", "worker", "webhook", "dead letters",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "check", "says"),
    [
        ({"POSTDATE_API_KEY": "pdk_of_nobody_at_all_0000"}, "key", "give another key"),
        ({"POSTDATE_URL": "http://127.0.0.1:1"}, "server", "start it"),
        ({"POSTDATE_URL": "ftp://x"}, "address", "POSTDATE_URL"),
        ({"POSTDATE_PORT": "abc"}, "settings", "correct that setting"),
    ],
)
async def test_what_is_wrong_is_named_with_what_to_do(
    api: Api, tmp_path: Path, settings: dict[str, str], check: str, says: str
) -> None:
    code, found = await states(api, POSTDATE_DATA_DIR=str(tmp_path), **settings)
    assert (code, found[check]["state"], says in found[check]["do"]) == (7, "wrong", True)


async def test_jobs_that_no_worker_takes_and_dead_webhooks_are_found(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "lane": "left"}
    assert (await api.call("POST", "/jobs", body)).status == 201
    hook = {"name": "crm", "type": "webhook", "url": "https://example.com/hook"}
    assert (await api.call("POST", "/destinations", hook)).status == 201
    await api.call("POST", "/destinations/crm/disable", {"reason": "gone"})

    def examine() -> list[str]:
        with Client(api.url, api.key) as client:
            later = datetime.now(UTC) + timedelta(minutes=1)
            return [each.found for each in diagnosis.tenant(client, later) if each.state != "ok"]

    assert await asyncio.to_thread(examine) == [
        "1 jobs of lane left are due, and no worker takes them",
        "crm is disabled: gone",
    ]


def test_clocks_that_differ_and_parts_that_are_not_ready_are_found() -> None:
    [apart] = diagnosis.clock(NOW, NOW + timedelta(seconds=90))
    assert (apart.state, apart.found) == ("wrong", "this machine and the server are 90 s apart")
    assert [each.state for each in diagnosis.clock(NOW, NOW + timedelta(seconds=1))] == ["ok"]
    database = {"name": "database", "reason": "it does not answer"}
    ill = {**HEALTHY, "ready": False, "reasons": [database]}
    assert [each.found for each in diagnosis.readiness(ill)] == ["database: it does not answer"]


def test_a_full_disk_and_a_file_that_others_may_read_are_found(tmp_path: Path) -> None:
    usage = mock.Mock(free=1024**2)
    with mock.patch("shutil.disk_usage", return_value=usage):
        assert next(diagnosis.machine(tmp_path / "data")).state == "wrong"
    (tmp_path / "client.json").write_text("{}")
    (tmp_path / "client.json").chmod(0o644)
    [found] = diagnosis.data_directory(tmp_path)
    assert (found.state, found.do) == ("wrong", f"chmod 600 {tmp_path}/client.json")


@pytest.mark.parametrize(
    ("words", "other", "differs"),
    [
        (("account", "ensure", "ann", "--floor", "0"), ("--floor", "5"), {"floor": (5, 0)}),
        (("lane", "ensure", "mail", "--max-running", "4"), ("--weight", "9"), {"weight": (9, 1)}),
        (
            ("schedule", "ensure", "tick", "--cron", "0 3 * * *"),
            ("--cron", "0 4 * * *"),
            {"cron": ("0 4 * * *", "0 3 * * *")},
        ),
        (
            (
                "destination",
                "ensure",
                "hook",
                "--type",
                "webhook",
                "--url",
                "https://example.com/a",
            ),
            ("--url", "https://example.com/b"),
            {"url": ("https://example.com/b", "https://example.com/a")},
        ),
    ],
)
async def test_ensure_creates_once_and_says_what_differs(
    api: Api, words: tuple[str, ...], other: tuple[str, ...], differs: dict[str, Any]
) -> None:
    first = await run_command(api, *words, "--json")
    assert (first.code, first.out["created"], first.out["differs"]) == (0, True, {})
    again = await run_command(api, *words, "--json")
    assert (again.code, again.out["created"], again.out["differs"]) == (0, False, {})
    changed = await run_command(api, *words[:3], *other, "--json")
    said = {name: {"asked": a, "found": f} for name, (a, f) in differs.items()}
    assert (changed.code, changed.out["differs"]) == (7, said)
    assert changed.err.startswith(f"postdate: {next(iter(differs))} is ")


async def test_a_job_without_options_is_asked_for_on_a_terminal(api: Api) -> None:
    refused = await run_command(api, "job", "create")
    assert (refused.code, "say what the job is" in refused.err) == (2, True)

    def answer() -> str:
        environ = {"POSTDATE_URL": api.url, "POSTDATE_API_KEY": api.key}
        out = io.StringIO()
        with (
            mock.patch.dict(os.environ, environ),
            mock.patch("postdate.cli.commands.job.asks", return_value=True),
            mock.patch("sys.stdin", io.StringIO('\nmail\n{"to": "ada"}\n5m\n')),
            mock.patch("sys.stdout", out),
        ):
            with contextlib.suppress(SystemExit):
                main(["job", "create", "-o", "jsonl"])
        return out.getvalue()

    made = await asyncio.to_thread(answer)
    [job] = (await api.call("GET", "/jobs?lane=mail")).body["jobs"]
    assert job["job_id"] in made
    job = (await api.call("GET", f"/jobs/{job['job_id']}")).body
    assert (job["payload"], job["status"]) == ({"to": "ada"}, "PENDING")


async def test_one_thing_is_printed_in_words_however_wide(api: Api) -> None:
    await run_command(api, "account", "create", "eve")
    ran = await run_command(api, "foresight", "money", "--account-id", "eve")
    assert ran.code == 0
    assert ("lowest.available" in ran.text, "{" in ran.text, "\npoints\n" in ran.text) == (
        True, False, True,
    )  # fmt: skip
    assert max(map(len, ran.text.splitlines())) < 120


@pytest.mark.process
def test_the_package_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "postdate", "--version"], capture_output=True, text=True, check=True
    )
    assert ran.stdout[0].isdigit()


COMPLETES = {
    "bash": "source <(postdate completion bash); COMP_WORDS=(postdate sch); COMP_CWORD=1; "
    'f=$(complete -p postdate | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $f postdate sch postdate; '
    'echo "${COMPREPLY[@]}"',
    "zsh": "zmodload zsh/zpty; zpty z zsh -f -i; "
    "zpty -w z 'autoload -U compinit; compinit -u -D; source <(postdate completion zsh); "
    "PS1=; print re''ady'; zpty -r z said '*ready*'; "
    "zpty -w -n z $'postdate sch\\t'; zpty -r z said '*schedule*'; print -r -- $said",
    "fish": "postdate completion fish | source; complete -C 'postdate sch'",
}


@pytest.mark.process
@pytest.mark.parametrize("shell", COMPLETES)
def test_a_shell_completes_a_command(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(COMMAND).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        [shell, "-c", COMPLETES[shell]], env={"PATH": path, "HOME": str(tmp_path)},
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "schedule" in ran.stdout, ran.stderr
