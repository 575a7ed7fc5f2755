"""Compute rules off the event loop, in separate threads with a limit per tenant."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from postdate.model.error import Code, refuse

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 6
PER_TENANT: Final = 4
"""So many computations of a tenant run or wait; one more is refused.

Some callers hold a connection meanwhile, so that a longer queue would take the others' away.
"""

_threads: Final = ThreadPoolExecutor(THREADS, thread_name_prefix="rules")
_under_way: Final[Counter[int]] = Counter()


async def computed(
    tenant_id: int | None, function: Callable[P, R], *arguments: P.args, **options: P.kwargs
) -> R:
    """Run a function in a thread, and wait for it."""
    return await asyncio.shield(started(tenant_id, function, *arguments, **options))


def started(
    tenant_id: int | None, function: Callable[P, R], *arguments: P.args, **options: P.kwargs
) -> asyncio.Future[R]:
    """Start a function in a thread; it counts for its tenant until it has really ended.

    Without a tenant it is one step of a walk over many schedules, and waits for a free thread. The
    caller may stop waiting; an exception is then ignored.
    """
    if tenant_id is not None and _under_way[tenant_id] >= PER_TENANT:
        detail = f"{PER_TENANT} schedules of the tenant are being computed: wait for one of them."
        raise refuse(Code.RATE_LIMITED, detail, retry_after_seconds=1)
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(_threads, lambda: function(*arguments, **options))
    if tenant_id is not None:
        _under_way[tenant_id] += 1
    running.add_done_callback(partial(_ended, tenant_id))
    return running


def _ended(tenant_id: int | None, ended: asyncio.Future[Any]) -> None:
    if not ended.cancelled():
        ended.exception()  # the caller may have stopped waiting: then nobody reads the exception
    if tenant_id is None:
        return
    _under_way[tenant_id] -= 1
    if not _under_way[tenant_id]:
        del _under_way[tenant_id]
