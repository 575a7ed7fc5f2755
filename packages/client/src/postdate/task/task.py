"""A task: a function, and the verbs that run it later."""

import functools
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar
from uuid import UUID

from postdate.client.handler_report import GiveUpError
from postdate.client.handlers import KIND
from postdate.client.models.jobs import JobOutcome
from postdate.client.models.leases import Lease
from postdate.client.models.schedules import Schedule
from postdate.client.own_transaction import AsyncOwnTransaction, OwnTransaction
from postdate.task.arguments import Arguments, unique_rule
from postdate.task.duration import seconds_of
from postdate.task.handle import MapRefusedError, TaskHandle

if TYPE_CHECKING:
    from postdate.task.app import Postdate

P = ParamSpec("P")
R = TypeVar("R")

MAX_NAME: Final = 190
"""How long the name of a schedule may be before its arguments are shortened."""

BATCH: Final = 1000
"""How many calls one request of `map` schedules."""


class Task(Generic[P, R]):
    """A function that can run later. Calling it runs it here and now."""

    def __init__(
        self,
        app: "Postdate",
        function: Callable[P, Any],
        *,
        name: str,
        lane: str,
        job: Mapping[str, Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self.lane = lane
        self._app = app
        self._function = function
        self._arguments = Arguments(function)
        self._job = dict(job)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Run the function here and now, as if it were no task."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Task({self.name}, lane={self.lane})"

    def now(self, *args: Any, **kwargs: Any) -> TaskHandle[R]:
        """Run it on a worker as soon as one is free."""
        return self._schedule({}, args, kwargs)

    def later(self, delay: str | float | timedelta, *args: Any, **kwargs: Any) -> TaskHandle[R]:
        """Run it after a delay: `"5m"`, seconds, or a timedelta."""
        return self._schedule(_after(delay), args, kwargs)

    def at(self, instant: datetime, *args: Any, **kwargs: Any) -> TaskHandle[R]:
        """Run it at an instant, which has a time zone."""
        return self._schedule(_when(instant), args, kwargs)

    async def anow(self, *args: Any, **kwargs: Any) -> TaskHandle[R]:
        """Run it on a worker as soon as one is free; for asynchronous programs."""
        return await self._aschedule({}, args, kwargs)

    async def alater(
        self, delay: str | float | timedelta, *args: Any, **kwargs: Any
    ) -> TaskHandle[R]:
        """Run it after a delay; for asynchronous programs."""
        return await self._aschedule(_after(delay), args, kwargs)

    async def aat(self, instant: datetime, *args: Any, **kwargs: Any) -> TaskHandle[R]:
        """Run it at an instant; for asynchronous programs."""
        return await self._aschedule(_when(instant), args, kwargs)

    def every(
        self,
        rule: str | float | timedelta,
        *args: Any,
        timezone: str = "UTC",
        schedule: str | None = None,
        **kwargs: Any,
    ) -> Schedule:
        """Run it again and again: by cron (`"0 9 * * 1-5"`), RRULE or interval (`"15m"`).

        One schedule is kept for each name, which is made of the task and its arguments unless
        `schedule` gives it: calling again at the next start changes it if the rule differs.
        """
        name, wanted = self._recurring(rule, args, kwargs, timezone, schedule)
        schedules = self._app.client.schedules
        ensured = schedules.ensure(name, **wanted)
        if not ensured.differs:
            return ensured.item
        return schedules.change(ensured.item.schedule_id, **wanted)

    async def aevery(
        self,
        rule: str | float | timedelta,
        *args: Any,
        timezone: str = "UTC",
        schedule: str | None = None,
        **kwargs: Any,
    ) -> Schedule:
        """Run it again and again; for asynchronous programs."""
        name, wanted = self._recurring(rule, args, kwargs, timezone, schedule)
        schedules = self._app.asynchronous.schedules
        ensured = await schedules.ensure(name, **wanted)
        if not ensured.differs:
            return ensured.item
        return await schedules.change(ensured.item.schedule_id, **wanted)

    def _recurring(
        self,
        rule: str | float | timedelta,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        timezone: str,
        name: str | None,
    ) -> tuple[str, dict[str, Any]]:
        job = self.body({}, args, kwargs)
        return name or _name(self.name, job["payload"]), {
            **_rule(rule),
            "timezone": timezone,
            "template": {"job": job},
        }

    def map(self, calls: Iterable[Any]) -> list[TaskHandle[R]]:
        """Run it once for each item: a mapping of arguments, a tuple of them, or one value."""
        create = self._app.client.jobs.create_many
        return self._handles(
            [each for jobs in self._batches(calls) for each in create(jobs=jobs).outcomes]
        )

    async def amap(self, calls: Iterable[Any]) -> list[TaskHandle[R]]:
        """Run it once for each item; for asynchronous programs."""
        create = self._app.asynchronous.jobs.create_many
        made = [await create(jobs=jobs) for jobs in self._batches(calls)]
        return self._handles([each for batch in made for each in batch.outcomes])

    def body(
        self, when: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the job that runs this call; the option `key` is the job's, not the function's."""
        given = dict(kwargs)
        key = given.pop("key", None)
        return {
            **self._job,
            **when,
            **({} if key is None else {"key": key}),
            "destination": {"type": "worker"},
            "lane": self.lane,
            "metadata": {**self._job.get("metadata", {}), KIND: self.name},
            "payload": self._arguments.encode(args, given),
        }

    async def run(self, lease: Lease) -> Any:
        """Run an asynchronous function with the arguments of a job."""
        args, kwargs = self._opened(lease)
        return await self._function(*args, **kwargs)

    def run_in_thread(self, lease: Lease) -> Any:
        """Run a plain function with the arguments of a job."""
        args, kwargs = self._opened(lease)
        return self._function(*args, **kwargs)

    @property
    def handler(self) -> Callable[[Lease], Any]:
        """Return what a worker calls for a job of this task."""
        return self.run if inspect.iscoroutinefunction(self._function) else self.run_in_thread

    def _opened(self, lease: Lease) -> tuple[list[Any], dict[str, Any]]:
        try:
            return self._arguments.decode(lease.payload, lease)
        except TypeError as error:
            # The function and the stored call differ: another attempt cannot succeed.
            raise GiveUpError(str(error), code="bad_arguments") from error

    def _schedule(
        self, when: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TaskHandle[R]:
        connection, once = kwargs.pop("using", None), kwargs.pop("idempotency_key", None)
        unique = kwargs.pop("unique", None)
        job = self.body(when, args, kwargs)
        if unique is not None:
            job["unique"] = unique_rule(unique)
        if connection is not None:
            made: Any = OwnTransaction(connection).enqueue(**job, idempotency_key=once)
        else:
            made = self._app.client.jobs.create(**job, idempotency_key=once).job_id
        return self._handle(made)

    async def _aschedule(
        self, when: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TaskHandle[R]:
        connection, once = kwargs.pop("using", None), kwargs.pop("idempotency_key", None)
        unique = kwargs.pop("unique", None)
        job = self.body(when, args, kwargs)
        if unique is not None:
            job["unique"] = unique_rule(unique)
        if connection is not None:
            asked: Coroutine[Any, Any, Any]
            asked = AsyncOwnTransaction(connection).enqueue(**job, idempotency_key=once)
            return self._handle(await asked)
        made = await self._app.asynchronous.jobs.create(**job, idempotency_key=once)
        return self._handle(made.job_id)

    def _batches(self, calls: Iterable[Any]) -> Iterable[list[Any]]:
        jobs: list[Any] = []
        for call in calls:
            jobs.append(self.body({}, *_call(call)))
            if len(jobs) == BATCH:
                yield jobs
                jobs = []
        if jobs:
            yield jobs

    def _handles(self, outcomes: Sequence[JobOutcome]) -> list[TaskHandle[R]]:
        handles = [self._handle(each.job.job_id) for each in outcomes if each.job is not None]
        refused = {n: each.problem for n, each in enumerate(outcomes) if each.problem is not None}
        if refused:
            raise MapRefusedError(refused, handles)
        return handles

    def _handle(self, job_id: UUID | str) -> TaskHandle[R]:
        return TaskHandle(self._app, str(job_id), self._arguments.returns)


def _after(delay: str | float | timedelta) -> dict[str, Any]:
    return {"delay_seconds": seconds_of(delay)}


def _when(instant: datetime) -> dict[str, Any]:
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no time zone: it may be any of two dozen instants")
    return {"run_at": instant}


def _rule(rule: str | float | timedelta) -> dict[str, Any]:
    if isinstance(rule, str) and "FREQ=" in rule.upper():
        return {"rrule": rule}
    if isinstance(rule, str) and " " in rule.strip():
        return {"cron": rule}
    return {"every_seconds": int(seconds_of(rule))}


def _name(task: str, arguments: Mapping[str, Any]) -> str:
    """Return the name of a schedule; long arguments are named by a hash."""
    if not arguments:
        return task
    written = json.dumps(arguments, sort_keys=True, ensure_ascii=False)
    if len(task) + len(written) > MAX_NAME:
        written = sha256(written.encode()).hexdigest()[:16]
    return f"{task} {written}"


def _call(item: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    match item:
        case Mapping():
            return (), item
        case tuple():
            return item, {}
        case _:
            return (item,), {}
