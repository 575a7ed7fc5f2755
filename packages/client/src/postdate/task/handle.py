"""A task that was scheduled: ask how it went, wait for its result, cancel it."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET

from postdate.client.errors import PostdateError
from postdate.client.models import Job
from postdate.client.models.jobs import CancelledJob

if TYPE_CHECKING:
    from postdate.client.models.shared import Problem
    from postdate.task.app import Postdate

R = TypeVar("R")

TIMEOUT_SECONDS: Final = 60.0


class TaskFailedError(PostdateError):
    """The task ended without a result; `job` says how."""

    def __init__(self, job: Job) -> None:
        why = job.error or job.code or "no reason is known"
        super().__init__(f"job {job.job_id} is {job.status}: {why}")
        self.job = job


class TaskResultError(PostdateError):
    """The task is done, but what is stored is no result of its annotation; `job` has it."""

    def __init__(self, job: Job, why: str) -> None:
        stored = job.result
        if isinstance(stored, dict) and "not_kept" in stored:
            why = str(stored["not_kept"])
        super().__init__(f"job {job.job_id} is done, but its result cannot be returned: {why}")
        self.job = job


class MapRefusedError(PostdateError):
    """Some calls of a `map` were refused: `problems` by their position; `handles` has the rest."""

    def __init__(self, problems: "dict[int, Problem]", handles: "list[TaskHandle[Any]]") -> None:
        first = next(iter(problems.items()))
        super().__init__(
            f"{len(problems)} of {len(problems) + len(handles)} calls were refused, "
            f"the first at {first[0]}: {first[1].detail}"
        )
        self.problems = problems
        self.handles = handles


class TaskHandle(Generic[R]):
    """A scheduled call of a task; `job_id` names it everywhere."""

    def __init__(self, app: "Postdate", job_id: str, returns: Any) -> None:
        self.job_id = job_id
        self._app = app
        self._returns = returns

    def __repr__(self) -> str:
        return f"TaskHandle({self.job_id})"

    def result(self, timeout: float | timedelta = TIMEOUT_SECONDS) -> Coroutine[Any, Any, R]:
        """Wait until the task has ended and return what it returned."""
        return self._ended(self._app.asynchronous.jobs.wait(self.job_id, timeout=timeout))

    async def _ended(self, waiting: Coroutine[Any, Any, Job]) -> R:
        return self._result(await waiting)

    def wait(self, timeout: float | timedelta = TIMEOUT_SECONDS) -> R:
        """Wait as `result` does, in a program without an event loop."""
        return self._result(self._app.client.jobs.wait(self.job_id, timeout=timeout))

    def job(self) -> Job:
        """Return the job as the server knows it."""
        return self._app.client.jobs.get(self.job_id)

    def ajob(self) -> Coroutine[Any, Any, Job]:
        """Return the job as the server knows it; for asynchronous programs."""
        return self._app.asynchronous.jobs.get(self.job_id)

    def cancel(self) -> CancelledJob:
        """Cancel the task, and return what is known of its effect; one that ended is refused."""
        return self._app.client.jobs.cancel(self.job_id)

    def acancel(self) -> Coroutine[Any, Any, CancelledJob]:
        """Cancel the task; for asynchronous programs."""
        return self._app.asynchronous.jobs.cancel(self.job_id)

    def _result(self, job: Job) -> R:
        if job.status != "COMPLETED":
            raise TaskFailedError(job)
        kept = None if job.result is UNSET else job.result
        try:
            result: R = msgspec.convert(kept, self._returns, str_keys=True)
        except msgspec.ValidationError as error:
            raise TaskResultError(job, str(error)) from None
        return result
