"""Calls about halts. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.halts import HaltList
from postdate.client.operations import halts as operations


class Halts(Group):
    """What the API offers about halts."""

    def list(self) -> HaltList:
        """Show whether the tenant stands still, why, and until when.

        An empty list means that nothing is stopped, now or in a window ahead.
        """
        return self._send(operations.LIST_HALTS)

    def kill(self, *, note: str) -> HaltList:
        """Stop everything of the tenant at once.

        Once this is answered, no payment of the tenant settles, nothing of it starts, and every
        change is refused; reading goes on, and what runs may report.
        `note`: Why.
        """
        return self._send(operations.KILL_TENANT, body={"note": note})

    def release(self) -> HaltList:
        """Let the tenant go on.

        Turns the kill switch off; what came due meanwhile runs as its policies say.
        """
        return self._send(operations.RELEASE_TENANT)

    def freeze(
        self,
        *,
        until: datetime,
        note: str,
        from_: datetime | None = None,
        mode: Literal["drain", "hold"] | UnsetType = UNSET,
    ) -> HaltList:
        """Hold what is due, or accept nothing new, for a window of time.

        What is due waits (`hold`), or runs while nothing new is accepted (`drain`).
        `until`: When it ends.
        `from_`: When it begins; now, if absent.
        `mode`: `hold`: what is due waits until the end. `drain`: nothing new is accepted, what is
        due still runs.
        `note`: Why.
        """
        return self._send(
            operations.FREEZE_TENANT,
            body={"until": until, "from": from_, "mode": mode, "note": note},
        )

    def thaw(self) -> HaltList:
        """End the freeze window now.

        What was held runs now.
        """
        return self._send(operations.THAW_TENANT)
