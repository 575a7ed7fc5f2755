"""A loop in a thread of its own, through which plain programs call asynchronous code."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """Runs coroutines for any thread, also for one in which a loop is running.

    The thread is started at the first call and, after a fork, again in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="postdate-client", daemon=True
                )
                thread.start()
            return self._loop

    @property
    def started(self) -> bool:
        """Return whether a thread of this process was started."""
        return self._loop is not None and self._pid == os.getpid()

    def close(self) -> None:
        """Stop the thread; a later call starts another."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._pid == os.getpid():
            loop.call_soon_threadsafe(loop.stop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
