"""Compute off the event loop, with a limit per tenant: a little in a thread, more in a process.

Whatever a thread computes cannot be ended, so that it has an allowance of steps (`model.work`). If
that is not enough, the same is computed in a process, which is killed when no caller waits for it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, TypeVarTuple

from postdate.core.work import TooMuchWorkError, allowed
from postdate.database.connection.compute_pool import POOL, Computation
from postdate.words.error import Code, refuse

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

THREADS: Final = 6
PER_TENANT: Final = 4
"""Maximum computations of a tenant that run or wait; one more is refused.

Some callers hold a connection meanwhile, so that a longer queue would take the others' away.
"""

THREAD_STEPS: Final = 400_000
"""The allowance of a computation in a thread: about half a second of CPU time."""

EACH_STEPS: Final = 1000
"""The allowance of one of many computations that share a thread; more is computed by itself."""

_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="rules")
_under_way: Final[Counter[int]] = Counter()


async def computed(tenant_id: int | None, function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Compute something that counts its steps, in a thread or in a process.

    Function and arguments must be such that `pickle` knows them. Without a tenant it is one step of
    a walk over many schedules.
    """
    try:
        return await attempted(tenant_id, function, *arguments)
    except TooMuchWorkError:
        return await in_process(tenant_id, function, *arguments)


async def computed_each(
    function: Callable[[*Ts], R], calls: Sequence[tuple[*Ts]]
) -> list[R | Exception]:
    """Compute the same for many steps of a walk, in one thread as far as each takes little.

    An exception stands for the result of the call that raised it.
    """
    found = await in_thread(_each, function, calls)
    for n, call in enumerate(calls):
        if isinstance(found[n], TooMuchWorkError):
            try:
                found[n] = await computed(None, function, *call)
            except Exception as error:  # noqa: BLE001 - the caller decides about each
                found[n] = error
    return found


def _each(function: Callable[[*Ts], R], calls: Sequence[tuple[*Ts]]) -> list[R | Exception]:
    found: list[R | Exception] = []
    for call in calls:
        try:
            with allowed(EACH_STEPS):
                found.append(function(*call))
        except Exception as error:  # noqa: BLE001 - the caller decides about each
            found.append(error)
    return found


async def attempted(tenant_id: int | None, function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Compute something in a thread, or raise TooMuchWorkError: the caller then uses a process."""
    _count(tenant_id)
    running = _in_thread(_within_allowance, function, *arguments)
    # A thread goes on without its caller: it counts until it has really ended.
    running.add_done_callback(lambda _: _count_less(tenant_id))
    return await asyncio.shield(running)


def started(work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    """Start a computation beside something else; the caller cancels it if that fails."""
    running = asyncio.create_task(work)
    running.add_done_callback(_looked_at)
    return running


@asynccontextmanager
async def cancelling(running: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Cancel a computation that was started if this block does not end well."""
    try:
        yield
    except BaseException:
        running.cancel()
        raise


async def in_thread(function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Run a function whose work is bounded by what it is given; it goes on if the caller ends."""
    return await asyncio.shield(_in_thread(function, *arguments))


def _in_thread(function: Callable[[*Ts], R], *arguments: *Ts) -> asyncio.Future[R]:
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(_threads, lambda: function(*arguments))
    running.add_done_callback(_looked_at)
    return running


async def in_process(tenant_id: int | None, function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    """Compute something in a process; it ends with the caller."""
    _count(tenant_id)
    try:
        submitted = POOL.submit(tenant_id, function, *arguments)
        found: R = await _result(submitted)
        return found
    finally:
        _count_less(tenant_id)


async def _result(submitted: Computation) -> Any:
    try:
        return await asyncio.wrap_future(submitted.future)
    except asyncio.CancelledError:
        POOL.abandon(submitted)
        raise


def _within_allowance(function: Callable[[*Ts], R], *arguments: *Ts) -> R:
    with allowed(THREAD_STEPS):
        return function(*arguments)


def _count(tenant_id: int | None) -> None:
    """Count a computation for its tenant, or refuse it."""
    if tenant_id is None:
        return
    if _under_way[tenant_id] >= PER_TENANT:
        detail = f"{PER_TENANT} schedules of the tenant are being computed: wait for one of them."
        raise refuse(Code.RATE_LIMITED, detail, retry_after_seconds=1)
    _under_way[tenant_id] += 1


def _count_less(tenant_id: int | None) -> None:
    if tenant_id is None:
        return
    _under_way[tenant_id] -= 1
    if not _under_way[tenant_id]:
        del _under_way[tenant_id]


def _looked_at(ended: asyncio.Future[R]) -> None:
    if not ended.cancelled():
        ended.exception()  # the caller may have stopped waiting: then the exception is not read
