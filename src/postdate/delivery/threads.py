"""Threads for blocking calls on behalf of tenants: separate from the process's own, with shares.

The event loop's default threads serve the process itself (files, loading of code). What waits for
a tenant's broker or name server must never wait there.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadsBusyError(Exception):
    """The tenant's share of the threads is in use."""


class TenantThreads:
    """Runs blocking calls; a tenant holds at most its share of the threads.

    A share counts until the call has really ended: giving up waiting frees no thread.
    """

    def __init__(self, name: str, threads: int, share: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._share = share
        self._busy: Counter[int] = Counter()

    async def run(
        self, tenant_id: int, call: Callable[[], T], discard: Callable[[T], None] | None = None
    ) -> T:
        """Run a call in a thread; raise ThreadsBusyError when the tenant's share is used up.

        If the caller has stopped waiting, the result is passed to `discard`, in the thread.
        """
        if self._busy[tenant_id] >= self._share:
            raise ThreadsBusyError(f"{self._share} such calls of this tenant are under way")
        self._busy[tenant_id] += 1
        loop = asyncio.get_running_loop()
        running = self._executor.submit(call)
        running.add_done_callback(lambda _: self._ended(loop, tenant_id))
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            running.cancel()
            if discard is not None:
                running.add_done_callback(lambda done: _discard(done, discard))
            raise

    def finish(self, call: Callable[[], None]) -> None:
        """Run a cleanup outside all shares, without waiting for it."""
        self._executor.submit(call)

    def _ended(self, loop: asyncio.AbstractEventLoop, tenant_id: int) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._free, tenant_id)

    def _free(self, tenant_id: int) -> None:
        self._busy[tenant_id] -= 1
        if not self._busy[tenant_id]:
            del self._busy[tenant_id]

    def close(self) -> None:
        """Shut the threads down without waiting for running calls."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _discard(done: "Future[T]", discard: Callable[[T], Any]) -> None:
    if not done.cancelled() and done.exception() is None:
        discard(done.result())
