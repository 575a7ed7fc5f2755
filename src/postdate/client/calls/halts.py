"""Calls about halts. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call
from postdate.client.models.halts import HaltList


class Halts(Group[K]):
    """What the API offers about halts."""

    @call("list_halts", "GET", "/halts")
    def list(self) -> HaltList:
        """Show whether the tenant stands still, why, and until when.

        An empty list means that nothing is stopped, now or in a window ahead.
        """

    @call("kill_tenant", "PUT", "/kill-switch")
    def kill(self, *, note: str) -> HaltList:
        """Stop everything of the tenant at once.

        Once this is answered, no payment of the tenant settles, nothing of it starts, and every
        change is refused; reading goes on, and what runs may report.
        `note`: Why.
        """

    @call("release_tenant", "DELETE", "/kill-switch")
    def release(self) -> HaltList:
        """Let the tenant go on.

        Turns the kill switch off; what came due meanwhile runs as its policies say.
        """

    @call("freeze_tenant", "PUT", "/freeze")
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

    @call("thaw_tenant", "DELETE", "/freeze")
    def thaw(self) -> HaltList:
        """End the freeze window now.

        What was held runs now.
        """
