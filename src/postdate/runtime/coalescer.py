"""Coalescer: concurrent requests share one transaction, and none sees another's errors."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar, cast

from postdate.core import test_clock
from postdate.database.connection.error import CommitUnknownError, UnavailableError
from postdate.runtime.retry import RetryLadder, RetryLimits
from postdate.runtime.under_way import UnderWay
from postdate.words.error import Code, refuse

Item = TypeVar("Item")
Result = TypeVar("Result")
_Waiting = tuple[Item, asyncio.Future[Result]]

MAX_GROUP: Final = 500
"""The most items of one commit."""

MAX_GROUPS: Final = 2
"""The most commits under way at once: while one waits for the disk, the next is prepared."""

MAX_DIVIDED: Final = 2
"""The most groups in which the item that broke them is searched for while others go on."""

MAX_WAITING: Final = 20_000
"""The most items that may wait; beyond, the server says that it is overloaded."""


BROKEN_OFF: Final = "The server was stopped during this request; repeat it with the same key."


class Coalescer(Generic[Item, Result]):
    """Collects items while transactions run; each transaction takes what has gathered.

    Every caller gets an answer or an error, even if the tasks of this class are cancelled.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        max_group: int = MAX_GROUP,
        max_groups: int = MAX_GROUPS,
        gather_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._commit = commit
        self._gather_seconds = gather_seconds
        self._max_group = max_group
        self._max_groups = max_groups
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        self._draining: set[asyncio.Task[None]] = set()
        self._divided = UnderWay()
        self._ladder = RetryLadder("group", self._answer, self._refuse, RetryLimits(passing=()))

    async def submit(self, item: Item) -> Result:
        """Commit one item together with whatever else has gathered."""
        if len(self._waiting) >= MAX_WAITING:
            raise refuse(Code.OVERLOADED, "Too many requests are waiting.", retry_after_seconds=1)
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        if test_clock.current_tenant() is not None:
            # Its clock is its own: no commit is shared with others, and no task is left behind.
            try:
                await self._answer([(item, done)])
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to this item
                await self._divide([(item, done)], error)
            return await done
        self._waiting.append((item, done))
        if len(self._draining) < self._max_groups:
            drainer = asyncio.create_task(self._drain())
            self._draining.add(drainer)
            drainer.add_done_callback(self._drained)
        return await done

    async def _drain(self) -> None:
        drainer = cast("asyncio.Task[None]", asyncio.current_task())
        # Even one turn of the loop lets requests that arrived together gather into one group.
        await asyncio.sleep(self._gather_seconds())
        try:
            while self._waiting:
                count = min(len(self._waiting), self._max_group)
                group = [self._waiting.popleft() for _ in range(count)]
                try:
                    await self._answer(group)
                except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one item
                    await self._divide(group, error)
        finally:
            # In the same step as the check of the empty queue: a caller that was just answered may
            # submit again before this coroutine is done, and must see that no task drains.
            self._draining.discard(drainer)

    def _drained(self, drainer: "asyncio.Task[None]") -> None:
        """Refuse waiting items if no task is left to take them, because the last was cancelled."""
        self._draining.discard(drainer)  # a task that was cancelled before its first step never did
        if self._waiting and not self._draining:
            _give_up(self._waiting)
            self._waiting.clear()

    async def _divide(self, group: Sequence[_Waiting[Item, Result]], error: Exception) -> None:
        """Find the item that breaks a group by halving it."""
        search = self._search(group, error)
        if len(group) == 1 or len(self._divided) >= MAX_DIVIDED:
            await search
        else:
            # The search takes many commits, and each may wait for a lock: others continue
            # meanwhile.
            self._divided.start(search, lambda: _give_up(group))

    async def _search(self, group: Sequence[_Waiting[Item, Result]], error: Exception) -> None:
        try:
            await self._ladder.divide(group, error)
        finally:
            # Cancelled in the first half, the second would not hear of it.
            _give_up(group)

    async def _answer(self, group: Sequence[_Waiting[Item, Result]]) -> None:
        """Commit a group and answer every caller; raise an error that belongs to one item."""
        waiting = [done for _, done in group]
        try:
            results = await self._commit([item for item, _ in group])
        except (CommitUnknownError, UnavailableError) as error:
            # The same for all, and an unknown commit is never repeated blindly.
            _fail(waiting, error)
        except asyncio.CancelledError:
            # The process stops: no caller may wait for an answer that does not come.
            _fail(waiting, CommitUnknownError(BROKEN_OFF))
            raise
        else:
            if len(results) != len(group):
                _fail(waiting, RuntimeError(f"{len(results)} answers to {len(group)} items"))
            for done, result in zip(waiting, results, strict=False):
                if not done.done():
                    done.set_result(result)

    async def _refuse(self, each: _Waiting[Item, Result], error: Exception) -> None:
        _fail([each[1]], error)


def _give_up(group: Iterable[_Waiting[Item, Result]]) -> None:
    """Refuse the items that have no answer: none of them was committed."""
    broken_off = refuse(Code.OVERLOADED, BROKEN_OFF, retry_after_seconds=1)
    _fail((done for _, done in group), broken_off)


def _fail(waiting: Iterable[asyncio.Future[Result]], error: Exception) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)
