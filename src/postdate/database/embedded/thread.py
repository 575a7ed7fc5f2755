"""A thread with an event loop of its own, which nothing else in the process can hold."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers on other loops, until it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work in the thread; a cancelled caller cancels it and waits until it has ended."""
        caller = asyncio.get_running_loop()
        done: asyncio.Future[T] = caller.create_future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(self._loop.create_task(work))
            tasks[0].add_done_callback(
                lambda task: caller.call_soon_threadsafe(_hand_over, task, done)
            )

        def end() -> None:
            tasks[0].cancel()

        self._loop.call_soon_threadsafe(begin)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(end)
            await asyncio.wait({done})
            if not done.cancelled():
                done.exception()  # seen, so that asyncio does not report it as forgotten
            raise

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


def _hand_over(task: "asyncio.Task[T]", to: "asyncio.Future[T]") -> None:
    if task.cancelled():
        to.cancel()
    elif (error := task.exception()) is not None:
        to.set_exception(error)
    else:
        to.set_result(task.result())
