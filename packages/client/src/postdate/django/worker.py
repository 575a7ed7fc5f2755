"""Runs tasks of Django on a worker of Postdate."""

import os
import socket
from collections.abc import Iterable
from contextvars import ContextVar
from traceback import format_exception
from typing import Any, Final

from django.db import close_old_connections
from django.utils import timezone

from postdate.client.handler_report import BAD_RESULT, GiveUpError
from postdate.client.models.leases import Lease
from postdate.client.running_job import RunningJob
from postdate.client.worker import Worker
from postdate.django.backend import PostdateBackend
from postdate.django.result import amend, arguments_of, error_of, new_result, task_of
from postdate.django.standard import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)

WORKER_ID: Final = f"{socket.gethostname()}-{os.getpid()}"


def make_worker(
    backend: PostdateBackend,
    queues: Iterable[str],
    *,
    concurrency: int = 10,
    lease_seconds: float = 30.0,
) -> Worker:
    """Return a worker that runs the tasks of some queues."""
    worker = Worker(
        backend.settings.url,
        backend.settings.api_key,
        concurrency=concurrency,
        lease_seconds=lease_seconds,
    )
    for queue in queues:
        worker.handler(queue)(TaskRunner(backend, queue).run)
    return worker


_running: Final[ContextVar[RunningJob | None]] = ContextVar("running_job", default=None)


def running_job() -> RunningJob:
    """Return the job of the task that this code runs for: its progress, log, steps and cancel."""
    found = _running.get()
    if found is None:
        raise LookupError("no task of a Postdate worker runs here")
    return found


class TaskRunner:
    """Runs the tasks of one queue, each in a thread of the worker."""

    def __init__(self, backend: PostdateBackend, queue: str) -> None:
        self._backend = backend
        self._queue = queue

    def run(self, lease: RunningJob) -> Any:
        """Run a task; a connection that is too old or broken is not used for it or kept after."""
        close_old_connections()
        before = _running.set(lease)
        try:
            return self._run(lease)
        finally:
            _running.reset(before)
            close_old_connections()

    def _run(self, lease: Lease) -> Any:
        result = self._started(lease)
        task_started.send(type(self._backend), task_result=result)
        context = [TaskContext(task_result=result)] if result.task.takes_context else []
        try:
            returned = result.task.call(*context, *result.args, **result.kwargs)
            kept = _json(returned)
        except Exception as error:
            self._failed(result, lease, error)
            raise
        except SystemExit as error:
            self._failed(result, lease, error)
            raise
        self._finished(result, TaskResultStatus.SUCCESSFUL, _return_value=kept)
        return kept

    def _started(self, lease: Lease) -> Any:
        args, kwargs = arguments_of(lease.payload)
        task = task_of(lease.metadata, self._queue, self._backend.alias)
        result = new_result(task, args, kwargs, self._backend.alias)
        now = timezone.now()
        earlier = [f"attempt {number}" for number in range(1, lease.attempt)]
        amend(
            result,
            id=lease.job_id,
            status=TaskResultStatus.RUNNING,
            started_at=now,
            last_attempted_at=now,
            worker_ids=[*earlier, WORKER_ID],
        )
        return result

    def _failed(self, result: Any, lease: Lease, error: BaseException) -> None:
        """Tell the receivers of signals, unless the task is tried again."""
        result.errors.append(error_of(error, "".join(format_exception(error))))
        ends = isinstance(error, GiveUpError) or running_job().cancelled
        if ends or lease.attempt >= lease.max_attempts:
            self._finished(result, TaskResultStatus.FAILED)

    def _finished(self, result: Any, status: Any, **known: Any) -> None:
        amend(result, status=status, finished_at=timezone.now(), **known)
        task_finished.send(type(self._backend), task_result=result)


def _json(returned: Any) -> Any:
    """Return what is kept of a result; another attempt would return no other kind of value."""
    try:
        return normalize_json(returned)
    except (TypeError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise GiveUpError(said, code=BAD_RESULT) from error
