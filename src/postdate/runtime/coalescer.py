"""Groups: concurrent requests share one transaction, and none sees another's errors."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from postdate.model.error import Code, refuse
from postdate.store.connection.error import CommitUnknownError, UnavailableError

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_GROUP: Final = 500
"""The most items of one commit."""

MAX_GROUPS: Final = 2
"""The most commits under way at once: while one waits for the disk, the next is prepared."""

MAX_DIVIDED: Final = 2
"""The most groups in which a culprit is searched for while others go on."""

MAX_WAITING: Final = 20_000
"""The most items that may wait; beyond, the server says that it is overloaded."""


BROKEN_OFF: Final = "The server was stopped in the middle of it; ask again with the same key."


class Coalescer(Generic[Item, Result]):
    """Collect items while transactions are under way; each takes what has gathered.

    Whoever waits gets an answer or an error, also when the tasks that work here are cancelled.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        most: int = MAX_GROUP,
        groups: int = MAX_GROUPS,
    ) -> None:
        self._commit = commit
        self._most = most
        self._groups = groups
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._active: set[object] = set()
        self._running: set[asyncio.Task[None]] = set()
        self._divided: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Commit one item together with whatever else has gathered."""
        if len(self._waiting) >= MAX_WAITING:
            raise refuse(Code.OVERLOADED, "Too many requests are waiting.", retry_after_seconds=1)
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if len(self._active) < self._groups:
            turn = object()
            self._active.add(turn)
            _start(self._drain(turn), self._running, lambda: self._drained(turn))
        return await done

    async def _drain(self, turn: object) -> None:
        # One turn of the loop lets requests that arrived together gather into one group.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                count = min(len(self._waiting), self._most)
                await self._settle([self._waiting.popleft() for _ in range(count)])
        finally:
            # In the same step as the look at an empty queue: whoever was just answered may submit
            # again before this coroutine counts as done, and must find that nobody drains.
            self._active.discard(turn)

    def _drained(self, turn: object) -> None:
        """Refuse what waits when nobody is left to take it: the last one was cancelled."""
        self._active.discard(turn)  # a task that was cancelled before its first step never did
        if not self._active:
            left = [done for _, done in self._waiting]
            self._waiting.clear()
            _fail(left, refuse(Code.OVERLOADED, BROKEN_OFF, retry_after_seconds=1))

    async def _settle(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        waiting = [done for _, done in group]
        try:
            results = await self._commit([item for item, _ in group])
        except (CommitUnknownError, UnavailableError) as error:
            # The same for all, and an unknown commit is never repeated blindly.
            _fail(waiting, error)
        except asyncio.CancelledError:
            # The process stops: nobody may wait for an answer that does not come.
            _fail(waiting, CommitUnknownError(BROKEN_OFF))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one item
            if len(group) == 1:
                _fail(waiting, error)
            elif asyncio.current_task() in self._divided or len(self._divided) >= MAX_DIVIDED:
                await self._divide(group)
            else:
                # Searching takes many commits, and each may wait for a lock: others go on.
                _start(self._divide(group), self._divided, lambda: _give_up(waiting))
        else:
            if len(results) != len(group):
                _fail(waiting, RuntimeError(f"{len(results)} answers to {len(group)} items"))
            for done, result in zip(waiting, results, strict=False):
                if not done.done():
                    done.set_result(result)

    async def _divide(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        middle = len(group) // 2
        try:
            await self._settle(group[:middle])
            await self._settle(group[middle:])
        finally:
            # Cancelled in the first half, the second would not hear of it.
            _give_up(done for _, done in group)


def _start(
    work: Coroutine[Any, Any, None],
    tasks: set[asyncio.Task[None]],
    ended: Callable[[], None],
) -> None:
    """Run a task; `ended` is called however it ends, even before its first step."""
    started = asyncio.create_task(work)
    tasks.add(started)

    def end(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        ended()

    started.add_done_callback(end)


def _give_up(waiting: Iterable[asyncio.Future[Result]]) -> None:
    """Refuse those that have no answer: nothing of theirs was committed."""
    _fail(waiting, refuse(Code.OVERLOADED, BROKEN_OFF, retry_after_seconds=1))


def _fail(waiting: Iterable[asyncio.Future[Result]], error: Exception) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)
