"""What the scheduler is handed to make jobs and payments with."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postdate.model.errors import Refusal
from postdate.model.firing import Fired, Firing
from postdate.store.database import Connection


class Firer(Protocol):
    """Intake's batch function: it writes in the caller's transaction."""

    async def fire(
        self, connection: Connection, firings: Sequence[Firing], now: datetime
    ) -> list[Fired | Refusal]:
        """Insert what each occurrence becomes; give one outcome for each, in order."""
        ...

    async def cancel(self, connection: Connection, running: Sequence[tuple[int, UUID]]) -> None:
        """End jobs whose place the next occurrence takes, by tenant and id."""
        ...

    def tell(self, fired: Iterable[Fired | Refusal]) -> None:
        """Hint after the commit that there is work."""
        ...
