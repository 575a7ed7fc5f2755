"""Calls about halts. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from datetime import datetime
from typing import Literal

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call
from postdate.client.models.halts import HaltList


class Halts(Group[K]):
    """What the API offers about halts."""

    @call(
        "list_halts", "GET", "/halts", columns=("kind", "mode", "from", "until", "note", "set_by")
    )
    def list(self) -> HaltList:
        """Show whether the tenant is halted, why, and until when.

        An empty list means that the tenant is not halted and no window is planned.
        """

    @call("kill_tenant", "PUT", "/kill-switch")
    def kill(self, *, note: str) -> HaltList:
        """Turn on the kill switch: stop everything of the tenant.

        Once this is answered, no payment of the tenant settles, nothing of it starts, and every
        change is refused; reading goes on, and what runs may report.
        `note`: Why, in a few words.
        """

    @call("release_tenant", "DELETE", "/kill-switch")
    def release(self) -> HaltList:
        """Turn off the kill switch: release the tenant.

        Work that came due meanwhile runs according to its policies.
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
        """Set a freeze window: hold due work, or refuse new work.

        Due work waits (`hold`), or runs while new work is refused (`drain`).
        `until`: When it ends.
        `from_`: When it begins; now, if absent.
        `mode`: `hold`: due work waits until the end. `drain`: new work is refused, due work still
        runs.
        `note`: Why, in a few words.
        """

    @call("thaw_tenant", "DELETE", "/freeze")
    def thaw(self) -> HaltList:
        """End the freeze window now.

        Work that was held back runs now.
        """
