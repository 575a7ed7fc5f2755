"""Cancel a coroutine at its n-th await, as a client that goes away does."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any


class Stepped(Coroutine[Any, None, Any]):
    """A coroutine whose task is cancelled when it waits for the n-th time.

    That is at once, or (`late`) when what it waited for has come, before it learns of it.
    """

    def __init__(self, inner: Coroutine[Any, None, Any], cancel_at: int, *, late: bool) -> None:
        self._inner = inner
        self._cancel_at = cancel_at
        self._late = late
        self.waits = 0

    def send(self, value: None) -> Any:
        waited_for = self._inner.send(value)
        self._count(waited_for)
        return waited_for

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        error = kind if value is None else value
        assert isinstance(error, BaseException)
        return self._inner.throw(error.with_traceback(trace) if trace else error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, None, Any]:
        raise TypeError("it is run as a task")

    def _count(self, waited_for: "asyncio.Future[Any] | None") -> None:
        self.waits += 1
        if self.waits != self._cancel_at:
            return
        running = asyncio.current_task()
        assert running is not None
        if self._late and waited_for is not None:
            waited_for.add_done_callback(lambda _: running.cancel())
        else:
            asyncio.get_running_loop().call_soon(running.cancel)


async def cancelled_at_each_await(
    use: Callable[[], Coroutine[Any, Any, Any]],
    check: Callable[[int], Awaitable[None]],
    *,
    late: bool,
    most: int = 200,
) -> int:
    """Run something again and again, cancelled one await later each time, until it gets through.

    Gives how many awaits there were; after each run, `check` is told which it was.
    """
    for number in range(1, most):
        stepped = Stepped(use(), number, late=late)
        running = asyncio.create_task(stepped)
        await asyncio.wait({running}, timeout=20)
        assert running.done(), f"cancelled at await {number}, it goes on for ever"
        if not running.cancelled():
            running.exception()
        await check(number)
        if stepped.waits < number:
            return stepped.waits
    raise AssertionError("it waits for ever")
