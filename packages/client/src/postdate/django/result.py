"""What Django knows of a task, from what the server knows of its job."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.module_loading import import_string

from postdate.client.handler_report import BAD_RESULT, HANDLER_ERROR
from postdate.client.handlers import KIND
from postdate.client.models import Attempt, Job
from postdate.django.standard import InvalidTaskError, Task, TaskError, TaskResult, TaskResultStatus

STATUSES: Final = {
    "COMPLETED": TaskResultStatus.SUCCESSFUL,
    "FAILED": TaskResultStatus.FAILED,
    "CANCELLED": TaskResultStatus.FAILED,
    "RUNNING": TaskResultStatus.RUNNING,
    # A person decides what becomes of a job in doubt: until then it has not ended.
    "UNKNOWN": TaskResultStatus.RUNNING,
}


class AttemptFailedError(Exception):
    """The class of an error that no exception of a task caused: a time-out, a cancellation."""


class UnknownTaskError(Exception):
    """A job names a task that this program does not have."""


def new_result(task: Any, args: Sequence[Any], kwargs: dict[str, Any], backend: str) -> Any:
    """Return the result of a task that is about to be enqueued; its arguments are JSON."""
    return _result(task=task, args=args, kwargs=kwargs, backend=backend)


def metadata_of(task: Any) -> dict[str, Any]:
    """Return what a job keeps of its task, beside the arguments."""
    kept: dict[str, Any] = {KIND: task.module_path}
    if task.run_after is not None:
        kept["run_after"] = task.run_after.isoformat()
    if task.priority:
        kept["priority"] = task.priority
    return kept


def job_priority(priority: int) -> int:
    """Return the priority of a job, 0 first and 9 last, for Django's, 100 first and -100 last."""
    return round(5 - priority / (20 if priority > 0 else 25))


def task_of(metadata: dict[str, Any] | None, lane: str | None, backend: str) -> Any:
    """Return the task that a job runs, as it was enqueued; raise UnknownTaskError if there is none.

    Only what is declared as a task is found: a job cannot name any other function.
    """
    kept = metadata or {}
    path = str(kept.get(KIND))
    try:
        found = import_string(path)
    except ImportError as error:
        raise UnknownTaskError(f"there is no task {path}: {error}") from error
    if not isinstance(found, Task):
        raise UnknownTaskError(f"{path} is no task: declare it with @task")
    try:
        return found.using(
            queue_name=lane,
            priority=kept.get("priority"),
            run_after=parse_datetime(kept.get("run_after", "")),
            backend=backend,
        )
    except InvalidTaskError:
        # The settings have changed since: the task runs as it is declared now.
        return found


def arguments_of(payload: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call from the payload of its job."""
    match payload:
        case {"args": list() as args, "kwargs": dict() as kwargs}:
            return args, kwargs
        case _:
            raise UnknownTaskError("the payload of this job is no call of a task")


def fetched_result(job: Job, attempts: Sequence[Attempt], backend: str) -> Any:
    """Return the result of a task from its job and the attempts that have ended."""
    args, kwargs = arguments_of(job.payload)
    began = [each.started_at for each in attempts]
    workers = [each.worker_id or f"attempt {each.attempt}" for each in attempts]
    if job.status == "RUNNING" and job.claimed_at is not None:
        began.append(job.claimed_at)
        workers.append(job.worker_id or f"attempt {job.attempt}")
    status = STATUSES.get(job.status, TaskResultStatus.READY)
    result = _result(
        task=task_of(job.metadata, job.lane, backend),
        args=args,
        kwargs=kwargs,
        backend=backend,
        id=job.job_id,
        status=status,
        enqueued_at=job.created_at,
        started_at=min(began, default=None),
        last_attempted_at=max(began, default=None),
        finished_at=job.finished_at,
        errors=_errors(job, attempts),
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL:
        amend(result, _return_value=job.result)
    return result


def amend(result: Any, **values: Any) -> None:
    """Set fields of a result, which Django has frozen for everybody else."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _result(**given: Any) -> Any:
    empty: dict[str, Any] = {
        "id": "",
        "status": TaskResultStatus.READY,
        "enqueued_at": None,
        "started_at": None,
        "last_attempted_at": None,
        "finished_at": None,
        "errors": [],
        "worker_ids": [],
    }
    return TaskResult(**(empty | given))


def _errors(job: Job, attempts: Sequence[Attempt]) -> list[Any]:
    found = [_error(each.code, each.error) for each in attempts if each.status != "COMPLETED"]
    if not found and job.status in {"FAILED", "CANCELLED"}:
        found = [_error(job.code, job.error or f"the job is {job.status}")]
    return found


def _error(code: str | None, error: str | None) -> Any:
    """Return an error as Django has it; what a function raised begins with its class."""
    text = error or code or ""
    if code not in {HANDLER_ERROR, BAD_RESULT}:
        return TaskError(exception_class_path=_path(AttemptFailedError), traceback=f"{text}\n")
    name = re.split(r"[:\n]", text, maxsplit=1)[0]
    path = name if "." in name else f"builtins.{name}"
    trace = text.partition("\n\n")[2] or text
    return TaskError(exception_class_path=path, traceback=f"{trace}\n")


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def error_of(error: BaseException, trace: str) -> Any:
    """Return an error that was just raised, with its traceback."""
    return TaskError(exception_class_path=_path(type(error)), traceback=trace)


def instant(moment: datetime | None) -> datetime | None:
    """Return an instant with a zone; Django allows none where USE_TZ is off."""
    if moment is None or timezone.is_aware(moment):
        return moment
    aware: datetime = timezone.make_aware(moment)
    return aware
