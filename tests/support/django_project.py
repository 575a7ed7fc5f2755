"""A Django project in the process of the tests: its settings and its tasks."""

import functools
import time
from typing import Any

import django
from django.conf import settings


@functools.cache
def set_up() -> None:
    """Configure Django once; a process has one project."""
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["postdate.django"],
        LOGGING_CONFIG=None,
        TIME_ZONE="UTC",
        USE_TZ=True,
        TASKS={"default": {"BACKEND": "postdate.django.backend.PostdateBackend", "QUEUES": []}},
    )
    django.setup()


set_up()

from postdate.client import JobCancelledError  # noqa: E402 - in a project
from postdate.django.standard import TaskContext, task  # noqa: E402
from postdate.django.worker import running_job  # noqa: E402

seen: list[Any] = []


@task
def add(one: int, *, two: int = 0) -> int:
    return one + two


@task(queue_name="mail")
async def later(text: str) -> str:
    return text.upper()


@task(takes_context=True)
def which(context: Any) -> list[Any]:
    assert isinstance(context, TaskContext)
    return [context.task_result.id, context.attempt]


@task
def refuse(after: int) -> int:
    seen.append(after)
    if len(seen) < after:
        raise KeyError(f"only {len(seen)}")
    return len(seen)


@task
def stop_when_asked() -> None:
    job = running_job()
    seen.append("began")
    until = time.monotonic() + 30
    while time.monotonic() < until and not job.cancelled:
        job.progress(10, "waits")
    raise JobCancelledError


@task
def leave() -> None:
    raise SystemExit("enough")


@task
def give_what_is_no_json() -> Any:
    seen.append(1)
    return {1, 2}


def no_task(*_: Any) -> None:
    seen.append("run")
