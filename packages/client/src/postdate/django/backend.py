"""The backend of `django.tasks`: a task that is enqueued becomes a job."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

from django.core import checks
from django.db import connections, transaction

from postdate.client.client import Client
from postdate.client.own_transaction import OwnTransaction
from postdate.client.problems import NotFoundError
from postdate.django.options import read_options
from postdate.django.result import (
    UnknownTaskError,
    amend,
    fetched_result,
    instant,
    job_priority,
    metadata_of,
    new_result,
)
from postdate.django.standard import BaseTaskBackend, NoResultError, task_enqueued


class PostdateBackend(BaseTaskBackend):  # type: ignore[misc] # Django has no types
    """Keeps the tasks of a Django project in Postdate; `manage.py postdate_worker` runs them."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.settings = read_options(alias, self.options)

    @property
    def client(self) -> Client:
        """Return the client of the server, which all threads share."""
        return _client(self.settings.url, self.settings.api_key)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Enqueue a task; within a transaction, as the option `enqueue` says.

        `id` and `enqueued_at` of the result are set as soon as they are known.
        """
        self.validate_task(task)
        result = new_result(task, args, kwargs, self.alias)
        job = self._job(result)
        match self.settings.enqueue:
            case "in_transaction":
                own = OwnTransaction(connections[self.settings.database])
                self._enqueued(result, id=str(own.enqueue(**job)))
            case "on_commit":
                create = partial(self._create, result, job)
                transaction.on_commit(create, using=self.settings.database)
            case _:
                self._create(result, job)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task by its id, which is the id of its job."""
        try:
            job = self.client.jobs.get(UUID(str(result_id)))
            attempts = list(self.client.jobs.list_attempts(job.job_id)) if job.attempt else []
            return fetched_result(job, attempts, self.alias)
        except (ValueError, NotFoundError, UnknownTaskError) as error:
            raise NoResultError(f"{result_id!r} is no result of a task: {error}") from error

    def check(self, **_: Any) -> list[Any]:
        """Say what is wrong with the settings, when Django checks them."""
        used = self.settings.enqueue != "at_once"
        if used and self.settings.database not in connections:
            return [checks.Error(f"there is no database {self.settings.database!r}", id=_id(1))]
        vendor = connections[self.settings.database].vendor if used else None
        if self.settings.enqueue == "in_transaction" and vendor != "postgresql":
            message = f"the database {self.settings.database!r} is {vendor}, not PostgreSQL"
            hint = "A job can join the transactions of the PostgreSQL that Postdate uses only."
            return [checks.Error(message, hint=hint, id=_id(2))]
        return []

    def _job(self, result: Any) -> dict[str, Any]:
        task = result.task
        return {
            **self.settings.job(),
            "destination": {"type": "worker"},
            "lane": task.queue_name,
            "priority": job_priority(task.priority),
            "run_at": instant(task.run_after),
            "metadata": metadata_of(task),
            "payload": {"args": result.args, "kwargs": result.kwargs},
        }

    def _create(self, result: Any, job: dict[str, Any]) -> None:
        made = self.client.jobs.create(**job)
        self._enqueued(result, id=made.job_id, enqueued_at=made.created_at)

    def _enqueued(self, result: Any, **known: Any) -> None:
        amend(result, **known)
        task_enqueued.send(type(self), task_result=result)


@lru_cache(maxsize=16)
def _client(url: str | None, api_key: str | None) -> Client:
    return Client(url, api_key)


def _id(number: int) -> str:
    return f"postdate.E{number:03}"
