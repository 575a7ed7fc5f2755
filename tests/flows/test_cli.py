"""The everyday commands against a running server."""

import asyncio
import os
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from conftest import Api, app_dsn
from postdate.client import AsyncClient, ProblemError
from postdate.database.embedded import Embedded
from support.command import Ran, run_command
from support.event import seal_all
from support.job import failed

COMMAND = Path(sys.executable).with_name("postdate")


async def run(api: Api, *arguments: str) -> Ran:
    """Run a command with --json against the server of the tests."""
    return await run_command(api, *arguments, "--json")


async def test_accounts_and_payments_from_the_command_line(api: Api) -> None:
    assert (await run(api, "account", "create", "alice")).out["balance"] == 0
    await run(api, "account", "create", "bob")
    adjusted = await run(api, "account", "adjust", "alice", "500", "--reason", "opening")
    assert adjusted.out["balance"] == 500
    made = await run(api, "payment", "schedule", "alice", "bob", "200", "--delay-seconds", "60")
    assert made.out["status"] == "PENDING"
    assert (await run(api, "account", "get", "alice")).out["held"] == 200
    listed = await run(api, "payment", "list", "--account-id", "alice")
    assert [one["payment_id"] for one in listed.out] == [made.out["payment_id"]]
    cancelled = await run(api, "payment", "cancel", made.out["payment_id"])
    assert cancelled.out["status"] == "CANCELLED"
    again = await run(api, "payment", "cancel", made.out["payment_id"])
    assert (again.code, again.out) == (0, cancelled.out)


async def test_jobs_from_the_command_line(api: Api) -> None:
    made = await run(api, "job", "create", "--lane", "mail", "--payload", '{"n": 1}')
    assert made.code == 0
    assert (await run(api, "job", "get", made.out["job_id"])).out["lane"] == "mail"
    assert len((await run(api, "job", "list", "--lane", "mail")).out) == 1
    assert (await run(api, "dead-letter", "list")).out == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["account", "get", "nobody"], 3, "not_found"),
        (["payment", "schedule", "a", "a", "5", "--delay-seconds", "5"], 2, "["),
        (["job", "create", "--payload", "{"], 2, "not JSON"),
        (["job", "cancel-many"], 2, "give a filter"),
        (["job", "reschedule", "x"], 2, "--run-at or --delay-seconds"),
        (["job", "list", "--time", "soon"], 2, "--time takes one of"),
        (["job", "create", "--watch"], 2, "--watch repeats"),
        (["job", "explode"], 2, "explode"),
    ],
)
async def test_a_refusal_is_one_sentence_and_an_exit_code(
    api: Api, arguments: list[str], code: int, says: str
) -> None:
    ran = await run(api, *arguments)
    assert (ran.code, ran.out) == (code, None)
    assert says in ran.err
    assert "Traceback" not in ran.err


async def test_a_test_clock_from_the_command_line(
    api: Api, server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instant without a zone is one in UTC, wherever the command runs."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    beside = {"POSTDATE_DATABASE_URL": app_dsn(server, database_name)}
    name = f"rehearsal{uuid4().hex[:8]}"
    try:
        words = ["tenant", "create", name, "--test", "--clock-at", "2027-01-01T00:00:00", "--json"]
        made = await run_command(api, *words, **beside)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (made.code, made.out["test"]) == (0, True), made.err
    words = ["key", "create", "--tenant", name, "--scope", "admin", "--json"]
    key = (await run_command(api, *words, **beside)).out["key"]
    rehearsal = replace(api, key=key)
    assert (await run(rehearsal, "clock", "show")).out["at"] == "2027-01-01T00:00:00Z"
    await run(rehearsal, "job", "create", "--lane", "mail", "--delay-seconds", "60")
    advanced = (await run(rehearsal, "clock", "advance", "1h")).out
    assert (advanced["finished"], [e["type"] for e in advanced["entries"]]) == (True, ["job.ready"])
    assert (await run(rehearsal, "clock", "entries", "--advance", "1")).out == advanced["entries"]
    for words, code in (
        (["advance", "-1h"], 2),
        (["advance", "1.5d"], 2),
        (["advance"], 2),
        (["advance", "--to", "2026-12-31T00:00:00Z"], 2),
    ):
        assert (await run(rehearsal, "clock", *words)).code == code, words
    live = await run(api, "clock", "advance", "1h")
    assert (live.code != 0, "not_in_test_mode" in live.err) == (True, True)


async def test_nobody_answering_is_said_so(api: Api) -> None:
    ran = await run(Api("http://127.0.0.1:1", api.session, api.node, api.key), "job", "list")
    assert (ran.code, "does not answer" in ran.err) == (1, True)


async def test_the_client_goes_through_pages_and_raises_problems(api: Api) -> None:
    async with AsyncClient(api.url, api.key) as client:
        for number in range(3):
            await client.accounts.create(account_id=f"a{number}")
        found = [one async for one in client.accounts.list(page_size=2)]
        assert [one.account_id for one in found][:3] == ["a0", "a1", "a2"]
        with pytest.raises(ProblemError) as raised:
            await client.payments.cancel("nothing")
        assert (raised.value.status, raised.value.code) == (404, "not_found")


async def test_schedules_from_the_command_line(api: Api) -> None:
    body = '{"cron": "@daily", "template": {"job": {"destination": {"type": "worker"}}}}'
    made = await run(api, "schedule", "create", "--body", body)
    assert made.code == 0, made.err
    schedule_id = made.out["schedule_id"]
    coming = (await run(api, "schedule", "preview", schedule_id, "--count", "3")).out
    assert len(coming["occurrences"]) == 3
    rule = ("--cron", "0 9 29 2 *", "--timezone", "Asia/Tokyo", "--count", "2")
    unsaved = (await run(api, "schedule", "preview", *rule)).out
    assert [warning["code"] for warning in unsaved["warnings"]] == ["leap_day_only"]
    assert (await run(api, "schedule", "pause", schedule_id, "--reason", "n")).out[
        "status"
    ] == "PAUSED"
    assert (await run(api, "schedule", "trigger", schedule_id)).out["job_id"]
    assert len((await run(api, "schedule", "occurrences", schedule_id)).out) == 1
    assert (await run(api, "schedule", "list", "--missed")).out == []
    assert (await run(api, "schedule", "delete", schedule_id)).out["deleted"] is True
    assert (await run(api, "schedule", "get", schedule_id)).code == 3


async def test_a_schedule_is_found_by_its_name(api: Api) -> None:
    rule = ("--cron", "@daily", "--lane", "mail")
    made = (await run(api, "schedule", "create", "--name", "weekday", *rule)).out
    assert (await run(api, "schedule", "get", "weekday")).out["schedule_id"] == made["schedule_id"]
    assert (await run(api, "schedule", "pause", "weekday")).out["status"] == "PAUSED"
    assert len((await run(api, "schedule", "preview", "weekday")).out["occurrences"]) == 10
    await run(api, "schedule", "trigger", "weekday")
    assert len((await run(api, "job", "list", "--schedule-id", "weekday")).out) == 1
    absent = await run(api, "schedule", "get", "weekend")
    assert (absent.code, "There is no schedule weekend." in absent.err) == (3, True)
    await run(api, "schedule", "create", "--name", "weekday", *rule)
    several = await run(api, "schedule", "delete", "weekday")
    assert (several.code, "2 schedules are called weekday" in several.err) == (2, True)


async def test_times_are_written_as_people_say_them(api: Api) -> None:
    made = (await run(api, "job", "create", "--lane", "later", "--in", "1d12h")).out
    due = datetime.fromisoformat(made["due_at"]) - datetime.now(UTC)
    assert timedelta(hours=35) < due <= timedelta(hours=36)
    when = ("--at", "2031-07-01 9:00", "--timezone", "Europe/Berlin")
    moved = (await run(api, "job", "reschedule", made["job_id"], *when)).out
    assert moved["due_at"] == "2031-07-01T07:00:00Z"
    for name in ("alice", "bob"):
        await run(api, "account", "create", name)
    await run(api, "account", "adjust", "alice", "500", "--reason", "opening")
    pay = ("payment", "schedule", "alice", "bob", "200")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    paid = (await run(api, *pay, "--at", "tomorrow 23:59", "--timezone", "UTC")).out
    assert paid["scheduled_time"] == f"{tomorrow}T23:59:00Z"


async def test_the_server_and_the_key_are_shown(api: Api) -> None:
    status = (await run(api, "status")).out
    assert (status["url"], status["ready"], status["tenant"]) == (api.url, True, api.tenant)
    assert (status["url_from"], status["key_from"]) == ("POSTDATE_URL", "POSTDATE_API_KEY")
    assert (await run(api, "whoami")).out["scopes"] == ["admin"]
    denied = await run(replace(api, key="pdk_of_nobody"), "job", "list")
    assert denied.code == 4
    asked = f"asked {api.url} (from POSTDATE_URL), with the key from POSTDATE_API_KEY"
    assert asked in denied.err
    nobody = await run(replace(api, url="http://127.0.0.1:1"), "status")
    assert (nobody.code, "the address is from POSTDATE_URL" in nobody.err) == (1, True)


async def test_one_page_of_top_is_json(api: Api) -> None:
    await run(api, "job", "create", "--lane", "shown", "--payload", "{}")
    await api.node.vitals.run_once()
    ran = await run(api, "top", "--once", "--interval", "0.1")
    assert ran.code == 0, ran.err
    assert [kind["kind"] for kind in ran.out["kinds"]][:3] == ["push", "pull", "payment"]
    assert [lane["lane"] for lane in ran.out["lanes"]] == ["shown"]
    assert ran.out["rates"]["jobs accepted"] >= 0


async def test_lanes_are_paused_and_jobs_waited_for(api: Api) -> None:
    made = await run(api, "job", "create", "--lane", "held", "--payload", "{}")
    assert (await run(api, "lane", "pause", "held", "--reason", "n")).out["paused"] is True
    assert (await run(api, "lane", "resume", "held")).out["paused"] is False
    assert (await run(api, "lane", "get", "nowhere")).code == 3
    job_id = made.out["job_id"]
    late = await run(api, "job", "wait", job_id, "--timeout-seconds", "0")
    assert (late.code, "still" in late.err) == (1, True)
    await run(api, "job", "cancel", job_id)
    assert (await run(api, "job", "wait", job_id)).code == 1
    assert (await run(api, "job", "wait", job_id, "--for", "CANCELLED")).code == 0


async def test_a_redrive_that_is_done_partly_says_so(api: Api) -> None:
    absent = "01a1e1c8-dd23-7001-bd68-723753d52271"
    ran = await run(api, "dead-letter", "redrive", absent)
    assert (ran.code, ran.out["redriven"]) == (6, 0)
    assert (await run(api, "dead-letter", "redrive", "--lane", "empty")).code == 0
    assert (await run(api, "dead-letter", "redrive")).code == 2


async def test_many_jobs_are_counted_first_and_changed_only_with_yes(api: Api) -> None:
    for _ in range(3):
        await run(api, "job", "create", "--lane", "many", "--delay-seconds", "3600")
    which = ("--lane", "many", "--reason", "by mistake")
    dry = await run(api, "job", "cancel-many", *which, "--dry-run")
    assert (dry.code, dry.out["matched"], dry.out["changed"]) == (0, {"PENDING": 3}, 0)
    unasked = await run(api, "job", "cancel-many", *which)
    assert (unasked.code, "cancel 3 jobs: pass --yes" in unasked.err) == (2, True)
    to = ("--run-at", "2035-01-01T00:00:00Z", "--due-before", "2034-01-01T00:00:00Z", "--yes")
    moved = await run(api, "job", "reschedule-many", *which, *to)
    assert (moved.code, moved.out) == (0, {"matched": 3, "changed": 3})
    done = await run(api, "job", "cancel-many", *which, "--yes")
    assert (done.code, done.out) == (0, {"matched": 3, "changed": 3})
    reasons = await api.node.database.writer.fetch(
        "SELECT DISTINCT type, data->>'reason' FROM event e JOIN tenant t USING (tenant_id)"
        " WHERE t.name = $1 AND type IN ('job.cancelled', 'job.rescheduled')",
        api.tenant,
    )
    assert {tuple(row) for row in reasons} == {
        ("job.cancelled", "by mistake"),
        ("job.rescheduled", "by mistake"),
    }
    none = await run(api, "job", "cancel-many", *which)
    assert (none.code, none.out["matched"]) == (0, {})


async def test_dead_letters_are_redriven_and_purged_by_a_filter(api: Api) -> None:
    letters = await failed(api, 2, lane="mail")
    which = ("--lane", "mail")
    dry = await run(api, "dead-letter", "redrive", *which, "--dry-run")
    assert (dry.code, dry.out["redriven"]) == (0, 2)
    assert (await run(api, "dead-letter", "redrive", *which)).code == 2
    done = await run(api, "dead-letter", "redrive", *which, "--yes", "--per-second", "5")
    assert (done.code, done.out["redriven"]) == (0, 2)
    listed = await run(api, "dead-letter", "list", *which)
    assert {one["job_id"] for one in listed.out} == set(letters)
    assert (await run(api, "dead-letter", "get", letters[0])).out["job"]["lane"] == "mail"
    assert (await run(api, "dead-letter", "purge", letters[0])).code == 2
    assert (await run(api, "dead-letter", "purge", *letters, "--yes")).out == {"purged": 2}
    assert (await run(api, "dead-letter", "list", *which)).out == []


async def test_a_backfill_says_first_what_it_would_run(api: Api) -> None:
    body = '{"cron": "@daily", "template": {"job": {"destination": {"type": "worker"}}}}'
    schedule_id = (await run(api, "schedule", "create", "--body", body)).out["schedule_id"]
    span = (schedule_id, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
    dry = await run(api, "schedule", "backfill", *span, "--dry-run")
    assert (dry.code, dry.out["runs"], dry.out["dry_run"]) == (0, 2, True)
    assert (await run(api, "schedule", "backfill", *span)).code == 2
    done = await run(api, "schedule", "backfill", *span, "--yes")
    assert (done.code, done.out["runs"], done.out["dry_run"]) == (0, 2, False)


async def test_destinations_subscriptions_and_accounts_from_the_command_line(api: Api) -> None:
    made = await run(api, "destination", "create", "hook", "--url", "https://example.com/hook")
    assert made.out["secret"].startswith("whsec_")
    off = await run(api, "destination", "disable", "hook", "--reason", "broken")
    assert off.out["disabled_reason"] == "broken"
    assert (await run(api, "destination", "enable", "hook")).out["disabled_at"] is None
    assert [one["name"] for one in (await run(api, "destination", "list")).out] == ["hook"]
    words = ("subscription", "create", "--destination", "hook", "--type", "job.*")
    made = await run(api, *words)
    assert made.out["types"] == ["job.*"]
    subscription = made.out["subscription_id"]
    paused = await run(api, "subscription", "pause", subscription, "--reason", "later")
    assert paused.code == 0, paused.err
    assert (await run(api, "subscription", "resume", subscription)).code == 0
    cursor = (await api.call("GET", "/events?after=beginning&limit=1")).body["next_cursor"]
    for start in ("beginning", cursor):
        assert (await run(api, "subscription", "replay", subscription, start)).code == 0
    assert (await run(api, "subscription", "delete", subscription)).out["deleted"] is True
    await run(api, "account", "create", "eve")
    assert (await run(api, "account", "freeze", "eve")).out["frozen_at"]
    assert (await run(api, "account", "unfreeze", "eve")).code == 0
    assert (await run(api, "account", "close", "eve")).out["closed_at"]


async def test_a_thing_has_an_address_in_the_console(api: Api) -> None:
    ran = await run(api, "open", "order 7/8")
    assert ran.out == {"url": f"{api.url}/find?q=order+7%2F8"}


async def test_a_shell_completes_commands_lanes_and_schedules(api: Api) -> None:
    await run(api, "job", "create", "--lane", "mailing")
    script = (await run(api, "completion", "bash")).out["script"]
    assert "cancel-many" in script
    assert "__complete" in script
    await run(api, "destination", "create", "hooks", "--url", "https://example.com/hook")
    await run(api, "calendar", "put", "berlin", "--holiday", "2031-01-01")
    for words, name in (
        (["lane", "pause", ""], "mailing"),
        (["job", "list", "--lane", ""], "mailing"),
        (["job", "create", "--destination", ""], "hooks"),
        (["destination", "disable", ""], "hooks"),
        (["calendar", "delete", ""], "berlin"),
        (["schedule", "create", "--calendar", ""], "berlin"),
    ):
        ran = await run_command(api, "__complete", *words)
        assert name in ran.text.split(), words


async def test_times_in_tables_may_be_relative(api: Api) -> None:
    await run(api, "job", "create", "--lane", "soon", "--delay-seconds", "7200")
    ran = await run_command(api, "job", "list", "--lane", "soon", "--time", "relative")
    assert "in 2 h" in ran.text


async def test_events_are_listed_and_followed(api: Api) -> None:
    made = await run(api, "job", "create", "--lane", "told", "--delay-seconds", "60")
    await run(api, "job", "cancel", made.out["job_id"])
    await seal_all(api.node.database)
    found = await run(api, "events", "list", "--types", "job.*")
    assert [one["type"] for one in found.out] == ["job.accepted", "job.cancelled"]
    tail = ("events", "tail", "--types", "job.cancelled", "--after", "beginning", "--count", "1")
    assert (await run(api, *tail)).out["subject"] == made.out["job_id"]


async def test_a_command_without_a_key_says_where_to_get_one(tmp_path: Path) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "job", "list"),
        env=environ | {"POSTDATE_DATA_DIR": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 1
    assert f"set POSTDATE_API_KEY; {tmp_path}/client.json has none for http://" in said.decode()
