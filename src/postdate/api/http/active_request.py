"""The requests that are being served, so that a stopping server can let them finish."""

import asyncio
from typing import Any


class ActiveRequests:
    """The asyncio tasks that serve requests, including those whose client has disconnected."""

    def __init__(self) -> None:
        self._serving: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._serving)

    def enter(self) -> asyncio.Task[Any] | None:
        """Register the current task as serving a request."""
        current = asyncio.current_task()
        if current is not None:
            self._serving.add(current)
        return current

    def leave(self, entered: asyncio.Task[Any] | None) -> None:
        """Unregister a task."""
        if entered is not None:
            self._serving.discard(entered)

    async def finished(self) -> None:
        """Wait until all active requests are done."""
        if self._serving:
            await asyncio.wait(self._serving)

    def cut_off(self) -> int:
        """Cancel the remaining requests and return how many there were."""
        for serving in self._serving:
            serving.cancel()
        return len(self._serving)
