"""What is under way: who owns it, and the one way in which it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class UnderWay:
    """Tasks of one owner: each is held until it ends, and its end is heard of in any case."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self, work: Coroutine[Any, Any, None], ended: Callable[[], None] = lambda: None
    ) -> None:
        """Run a task; `ended` is called however it ends, cancelled before its first step too."""
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def end(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task.add_done_callback(end)

    async def join(self) -> None:
        """Wait until what is under way now has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)
