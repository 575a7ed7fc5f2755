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
        """Show whether the tenant stands still, why, and until when."""
        return self._send(operations.LIST_HALTS)

    def kill(self, *, note: str) -> HaltList:
        """Stop everything of the tenant at once.

        Once this is answered, no payment of the tenant settles, nothing of it starts, and every
        change is refused; reading goes on, and what runs may report.
        `note`: Why.
        """
        return self._send(operations.KILL, body={"note": note})

    def release(self) -> HaltList:
        """Let the tenant go on."""
        return self._send(operations.RELEASE)

    def freeze(
        self,
        *,
        until: datetime,
        note: str,
        from_: datetime | None = None,
        mode: Literal["drain", "hold"] | UnsetType = UNSET,
    ) -> HaltList:
        """Hold what is due, or accept nothing new, for a window of time.

        `until`: When it ends.
        `from_`: When it begins; now, if absent.
        `mode`: `hold`: what is due waits until the end. `drain`: nothing new is accepted, what is
        due still runs.
        `note`: Why.
        """
        return self._send(
            operations.FREEZE, body={"until": until, "from": from_, "mode": mode, "note": note}
        )

    def thaw(self) -> HaltList:
        """End the freeze window now."""
        return self._send(operations.THAW)
