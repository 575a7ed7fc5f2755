"""Tasks of Django, from `enqueue` to their results, and the project of the guide as it is run."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from postdate.client.portal import Portal
from postdate.client.pytest_plugin import PostdateServer, TestTenant
from support.program import PATIENCE_SECONDS, ask, free_port, until

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples/django_shop"
GUIDE = ROOT / "docs/guides/django.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture
def tasks() -> Any:
    """Give the tasks of a project, and forget what they saw."""
    from support import django_project

    django_project.seen.clear()
    return django_project


@contextmanager
def configured(tenant: TestTenant, **options: Any) -> Iterator[Any]:
    """Give the backend of a tenant."""
    from django.test import override_settings

    from postdate.django.standard import task_backends

    known = {"url": tenant.url, "api_key": tenant.key, **options}
    backend = "postdate.django.backend.PostdateBackend"
    made = {"BACKEND": backend, "QUEUES": ["default", "mail"], "OPTIONS": known}
    with override_settings(TASKS={"default": made}):
        yield task_backends["default"]


def drain(backend: Any) -> int:
    """Run what is due in the queues of a backend; return how many tasks ran."""
    from postdate.django.worker import make_worker

    portal = Portal()
    try:
        return portal.run(make_worker(backend, sorted(backend.queues)).drain())
    finally:
        portal.close()


def test_a_task_runs_and_its_result_can_be_read(postdate: TestTenant, tasks: Any) -> None:
    with configured(postdate) as backend:
        first = tasks.add.enqueue(1, two=2)
        assert (first.status, first.attempts, first.is_finished) == ("READY", 0, False)
        second, third = tasks.later.enqueue("tea"), tasks.which.enqueue()
        assert postdate.client.jobs.get(second.id).lane == "mail"
        assert drain(backend) == 3
        for each in (first, second, third):
            each.refresh()
            assert (each.status, each.attempts, each.errors) == ("SUCCESSFUL", 1, [])
        assert (first.return_value, second.return_value) == (3, "TEA")
        assert third.return_value == [third.id, 1]
        assert tasks.add.get_result(first.id) == first


def test_run_after_and_priority_are_kept(postdate: TestTenant, tasks: Any) -> None:
    with configured(postdate) as backend:
        at = postdate.now + timedelta(days=3)
        result = tasks.add.using(run_after=at, priority=60).enqueue(1)
        assert postdate.client.jobs.get(result.id).priority == 2
        assert backend.get_result(result.id).task == result.task
        postdate.advance("2d")
        assert drain(backend) == 0
        postdate.advance("1d")
        assert drain(backend) == 1
        assert backend.get_result(result.id).return_value == 1


def test_a_task_that_raised_is_tried_again(postdate: TestTenant, tasks: Any) -> None:
    from postdate.django.standard import task_finished, task_started

    told: list[tuple[str, int]] = []

    def hear(*_: Any, task_result: Any, **__: Any) -> None:
        told.append((str(task_result.status), task_result.attempts))

    with configured(postdate, retry=2) as backend:
        for signal in (task_started, task_finished):
            signal.connect(hear)
        result = tasks.refuse.enqueue(3)
        assert drain(backend) == 1
        result.refresh()
        assert (result.status, result.finished_at, len(result.errors)) == ("READY", None, 1)
        for _ in range(2):
            postdate.advance("1d")
            drain(backend)
        for signal in (task_started, task_finished):
            signal.disconnect(hear)
        result.refresh()
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 3)
    assert [each.exception_class for each in result.errors] == [KeyError, KeyError]
    assert result.errors[1].traceback.endswith("KeyError: 'only 2'\n")
    assert told == [("RUNNING", 1), ("RUNNING", 2), ("RUNNING", 3), ("SUCCESSFUL", 3)]


def test_a_task_hears_that_its_job_is_to_be_cancelled(postdate: TestTenant, tasks: Any) -> None:
    from postdate.django.standard import task_finished
    from postdate.django.worker import make_worker, running_job

    ended: list[str] = []

    def hear(*_: Any, task_result: Any, **__: Any) -> None:
        ended.append(str(task_result.status))

    with configured(postdate, retry=5) as backend:
        task_finished.connect(hear)
        result = tasks.stop_when_asked.enqueue()
        portal, worker = Portal(), make_worker(backend, ["default"], lease_seconds=1)
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(portal.run, worker.drain())
            until(lambda: tasks.seen == ["began"])
            asked = postdate.client.jobs.cancel(result.id, deadline_seconds=3600)
            assert asked.result == "cancel_requested"
            running.result(PATIENCE_SECONDS)
        portal.close()
        task_finished.disconnect(hear)
        result.refresh()
        job = postdate.client.jobs.get(result.id)
    assert (job.status, job.code) == ("CANCELLED", "cancelled_after_failure")
    assert job.progress is not None
    assert job.progress.note == "waits"
    assert (str(result.status), ended) == ("FAILED", ["FAILED"])
    with pytest.raises(LookupError):
        running_job()


def test_a_task_that_exits_ends_its_attempt_and_no_worker(postdate: TestTenant, tasks: Any) -> None:
    with configured(postdate, retry=0) as backend:
        result, after = tasks.leave.enqueue(), tasks.add.enqueue(2)
        assert drain(backend) == 2
        result.refresh()
        after.refresh()
    assert (result.status, result.errors[0].exception_class) == ("FAILED", SystemExit)
    assert result.errors[0].traceback.endswith("SystemExit: enough\n")
    assert after.return_value == 2


def test_a_result_that_is_no_json_fails_once(postdate: TestTenant, tasks: Any) -> None:
    with configured(postdate, retry=5) as backend:
        result = tasks.give_what_is_no_json.enqueue()
        drain(backend)
        result.refresh()
    assert (result.status, tasks.seen) == ("FAILED", [1])
    assert result.errors[0].exception_class is TypeError


def test_a_cancelled_task_has_failed(postdate: TestTenant, tasks: Any) -> None:
    from postdate.django.result import AttemptFailedError

    with configured(postdate) as backend:
        result = tasks.add.using(run_after=postdate.now + timedelta(days=1)).enqueue(1)
        postdate.client.jobs.cancel(result.id)
        result.refresh()
        assert (result.status, result.is_finished, drain(backend)) == ("FAILED", True, 0)
    assert result.errors[0].exception_class is AttemptFailedError


def test_only_what_is_a_task_is_run_or_found(postdate: TestTenant, tasks: Any) -> None:
    from postdate.django.standard import NoResultError

    paths = ["support.django_project.no_task", "os.system", "nowhere.at_all", None]
    with configured(postdate) as backend:
        made = [
            postdate.client.jobs.create(
                destination={"type": "worker"},
                lane="default",
                metadata={"kind": path},
                payload={"args": ["true"], "kwargs": {}},
                retry={"max_attempts": 1},
            ).job_id
            for path in paths
        ]
        assert drain(backend) == len(paths)
        assert {postdate.client.jobs.get(each).status for each in made} == {"FAILED"}
        assert tasks.seen == []
        for unknown in [*made, "123", "01890000-0000-7000-8000-000000000000"]:
            with pytest.raises(NoResultError, match="is no result of a task"):
                backend.get_result(unknown)


def test_a_task_is_enqueued_when_the_transaction_commits(postdate: TestTenant, tasks: Any) -> None:
    from django.db import transaction

    with configured(postdate, enqueue="on_commit") as backend:
        with transaction.atomic():
            kept = tasks.add.enqueue(1)
            assert (kept.id, kept.enqueued_at, drain(backend)) == ("", None, 0)
        with transaction.atomic():
            lost = tasks.add.enqueue(2)
            transaction.set_rollback(True)
        alone = tasks.add.enqueue(3)
        assert (bool(kept.id), lost.id, bool(alone.id)) == (True, "", True)
        assert drain(backend) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": 3}, "unknown field `retries`"),
        ({"retry": -1}, "`$.retry`"),
        ({"enqueue": "later"}, "`$.enqueue`"),
        ({"timeout": "soon"}, "'soon' is no duration"),
    ],
)
@pytest.mark.usefixtures("tasks")
def test_wrong_options_are_named(postdate: TestTenant, options: dict[str, Any], said: str) -> None:
    from django.core.exceptions import ImproperlyConfigured

    with pytest.raises(ImproperlyConfigured) as refused, configured(postdate, **options):
        pass
    assert said in str(refused.value)
    assert "TASKS['default']['OPTIONS']" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"enqueue": "in_transaction"}, "the database 'default' is sqlite, not PostgreSQL"),
        ({"enqueue": "on_commit", "database": "none"}, "there is no database 'none'"),
    ],
)
@pytest.mark.usefixtures("tasks")
def test_the_checks_of_django_say_what_cannot_work(
    postdate: TestTenant, options: dict[str, Any], said: str
) -> None:
    with configured(postdate, **options) as backend:
        assert [each.msg for each in backend.check()] == [said]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backend", "other"], "TASKS has no backend 'other'"),
        (["--queue", "sms"], "the backend 'default' has no queue sms"),
        (["--concurrency", "0"], "concurrency is at least 1, not 0"),
    ],
)
@pytest.mark.usefixtures("tasks")
def test_the_command_says_what_it_cannot_serve(
    postdate: TestTenant, words: list[str], said: str
) -> None:
    from django.core.management import CommandError, call_command

    with configured(postdate), pytest.raises(CommandError, match=said):
        call_command("postdate_worker", *words, stderr=StringIO())


def test_every_block_of_the_guide_is_part_of_the_project() -> None:
    program = "\n".join(file.read_text() for file in PROJECT.rglob("*.py"))
    blocks = [part for block in BLOCK.findall(GUIDE.read_text()) for part in block.split("\n\n")]
    assert len(blocks) >= 3
    for block in blocks:
        assert block.strip("\n") in program


@pytest.mark.process
def test_the_project_of_the_guide_runs(postdate_server: PostdateServer, tmp_path: Path) -> None:
    port = free_port()
    known = {
        "POSTDATE_URL": postdate_server.url,
        "POSTDATE_API_KEY": postdate_server.key,
        "SHOP_DATABASE": str(tmp_path / "shop.db"),
    }

    def manage(*words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "manage.py", *words]
        return subprocess.Popen(command, cwd=PROJECT, env=os.environ | known)

    assert manage("migrate", "--run-syncdb", "--verbosity", "0").wait(PATIENCE_SECONDS) == 0
    serving = manage("runserver", "--noreload", str(port))
    working = manage("postdate_worker", "--queue", "mail")
    try:
        url = f"http://127.0.0.1:{port}"
        bought = until(lambda: ask("GET", f"{url}/buy/tea")[1])
        result = f"{url}/results/{bought['result']}"
        done = {"status": "SUCCESSFUL", "said": "tea confirmed"}
        until(lambda: ask("GET", result)[1] == done)
    finally:
        for process in (working, serving):
            process.terminate()
        assert working.wait(PATIENCE_SECONDS) == 0
        serving.wait(PATIENCE_SECONDS)
