"""The requests that are being served, so that a stopping server can let them finish."""

import asyncio
from typing import Any


class ActiveRequests(set[asyncio.Task[Any]]):
    """The asyncio tasks that serve requests, including those whose client has disconnected."""

    async def finished(self) -> None:
        """Wait until all active requests are done."""
        if self:
            await asyncio.wait(self)

    def cut_off(self) -> int:
        """Cancel the remaining requests and return how many there were."""
        for serving in self:
            serving.cancel()
        return len(self)
