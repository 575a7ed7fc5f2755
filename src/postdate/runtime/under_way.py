"""Running tasks with an owner, and a single way in which they end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class UnderWay:
    """Tasks of one owner: each is referenced until it ends, and its end is always reported."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self, work: Coroutine[Any, Any, None], ended: Callable[[], None] = lambda: None
    ) -> None:
        """Run a task; call `ended` however it ends, even if cancelled before its first step."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def end(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task.add_done_callback(end)

    async def join(self) -> None:
        """Wait until the tasks that run now have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)
