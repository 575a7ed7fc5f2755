"""An application: its tasks, the server that keeps them, and the worker that runs them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, overload

from postdate.client.client import AsyncClient, Client
from postdate.client.worker import Worker
from postdate.task.arguments import unique_rule
from postdate.task.duration import seconds_of
from postdate.task.task import Task
from postdate.task.testing import TaskTime, server_for_tests

if TYPE_CHECKING:
    from postdate.client.pytest_plugin import TestTenant

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_LANE: Final = "default"


class Declare(Protocol):
    """Makes a task of a function; what an asynchronous one returns is what it is awaited for."""

    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class Postdate:
    """The tasks of a program.

    The address and the key of the server come from POSTDATE_URL and POSTDATE_API_KEY unless
    they are given, or from `./.postdate`. They are needed when a task is scheduled, not where
    tasks are declared.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None) -> None:
        self.tasks: dict[str, Task[..., Any]] = {}
        self._server = (url, api_key)
        self._client: Client | None = None
        self._asynchronous: AsyncClient | None = None

    @property
    def client(self) -> Client:
        """Return the client that schedules tasks, for everything else that the API offers."""
        if self._client is None:
            self._client = Client(*self._server)
        return self._client

    @property
    def asynchronous(self) -> AsyncClient:
        """Return a client of the same server for asynchronous programs."""
        if self._asynchronous is None:
            self._asynchronous = AsyncClient(*self._server)
        return self._asynchronous

    def task(
        self,
        *,
        name: str | None = None,
        lane: str = DEFAULT_LANE,
        retry: int | Mapping[str, Any] | None = None,
        timeout: str | float | timedelta | None = None,
        priority: int | None = None,
        description: str | None = None,
        unique: str | Mapping[str, Any] | None = None,
    ) -> Declare:
        """Make the function below a task, known by its name on every machine.

        `retry` is how often a failed task is tried again (0: never), or the whole policy of
        `POST /jobs`. `timeout` is the longest that one attempt may take. `priority` is 0 (first) to
        9 (last) within its lane. `unique` is a key under which at most one call waits, or the
        whole rule of `POST /jobs`. What is left out follows the settings of the server.
        """
        job: dict[str, Any] = {}
        if retry is not None:
            job["retry"] = {"max_attempts": retry + 1} if isinstance(retry, int) else dict(retry)
        if timeout is not None:
            job["timeout_seconds"] = seconds_of(timeout)
        if priority is not None:
            job["priority"] = priority
        if description is not None:
            job["description"] = description
        if unique is not None:
            job["unique"] = unique_rule(unique)

        def declare(function: Callable[P, Any], /) -> Task[P, Any]:
            made: Task[P, Any]
            made = Task(self, function, name=name or function.__name__, lane=lane, job=job)
            if self.tasks.setdefault(made.name, made) is not made:
                raise ValueError(
                    f"there is a task {made.name!r} already: give one of them another name="
                )
            return made

        return declare

    def worker(self, *, concurrency: int = 10, lease_seconds: float = 30.0) -> Worker:
        """Return a worker that runs the tasks of this application."""
        worker = Worker(*self._server, concurrency=concurrency, lease_seconds=lease_seconds)
        for task in self.tasks.values():
            worker.handler(task.lane, kind=task.name)(task.handler)
        return worker

    def run_worker(self, *, concurrency: int = 10, lease_seconds: float = 30.0) -> None:
        """Run tasks until SIGTERM or SIGINT, then finish what is under way."""
        self.worker(concurrency=concurrency, lease_seconds=lease_seconds).run_forever()

    def lifespan(
        self, *, worker: bool = False, concurrency: int = 10
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """Return what FastAPI and Starlette take as `lifespan`: it closes connections at the end.

        With `worker`, tasks run beside the requests, until the server stops; what is under way is
        finished first.
        """

        @asynccontextmanager
        async def living(_: Any) -> AsyncIterator[None]:
            running = self.worker(concurrency=concurrency) if worker else None
            working = None if running is None else asyncio.create_task(running.run())
            try:
                yield
            finally:
                if running is not None and working is not None:
                    running.stop()
                    await working
                await self.close()

        return living

    async def get_client(self) -> AsyncClient:
        """Return the client, as a dependency: `Depends(app.get_client)`."""
        return self.asynchronous

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._asynchronous is not None:
            await self._asynchronous.close()
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    @contextmanager
    def testing(self, tenant: "TestTenant | None" = None) -> Iterator[TaskTime]:
        """Schedule in a tenant whose time stands still until the test advances it.

        Without a tenant (the fixture `postdate` of pytest is one) a server for this process is
        started, which ends with it.
        """
        tenant = tenant or server_for_tests().new_tenant()
        kept = self._server, self._client, self._asynchronous
        self._server = (tenant.url, tenant.key)
        self._client, self._asynchronous = tenant.client, None
        try:
            yield TaskTime(tenant, self.worker)
        finally:
            self._server, self._client, self._asynchronous = kept
