"""Know the requests being served, so that a server can let them finish."""

import asyncio
from typing import Any


class ActiveRequests:
    """The asyncio tasks that serve requests now, also those whose client has gone."""

    def __init__(self) -> None:
        self._serving: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._serving)

    def enter(self) -> asyncio.Task[Any] | None:
        """Count the request that is running here."""
        current = asyncio.current_task()
        if current is not None:
            self._serving.add(current)
        return current

    def leave(self, entered: asyncio.Task[Any] | None) -> None:
        """Count it out again."""
        if entered is not None:
            self._serving.discard(entered)

    async def finished(self) -> None:
        """Wait until the requests served now are done."""
        if self._serving:
            await asyncio.wait(self._serving)

    def cut_off(self) -> int:
        """Cancel what is left and say how many that were."""
        for serving in self._serving:
            serving.cancel()
        return len(self._serving)
