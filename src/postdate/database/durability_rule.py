"""Whether an acknowledged commit survives a crash or a failover: a condition of payments."""

from typing import Final

import msgspec

from postdate.core.setting.setting import Settings
from postdate.words.error import Code, Refusal

UNSAFE_COMMITS: Final = "payment.unsafe_commits"


class Durability(msgspec.Struct, frozen=True):
    """How the server keeps commits; `standbys` counts the connected ones."""

    fsync: bool = True
    full_page_writes: bool = True
    synchronous_commit: str = "on"
    synchronous_standby_names: str = ""
    standbys: int = 0

    def weakness(self) -> str | None:
        """Return why an acknowledged commit may be lost, or None when it is safe."""
        if not self.fsync:
            return "fsync is off: a crash of the machine loses commits"
        if not self.full_page_writes:
            return "full_page_writes is off: a crash of the machine may tear pages"
        if self.synchronous_commit == "off":
            return "synchronous_commit is off: a crash loses the latest commits"
        if self.standbys and not self.synchronous_standby_names:
            return (
                f"replication is asynchronous ({self.standbys} connected, "
                "synchronous_standby_names is empty): a failover loses the latest commits"
            )
        if self.synchronous_standby_names and self.synchronous_commit == "local":
            return "synchronous_commit is local: a failover loses the latest commits"
        return None


class CommitSafety:
    """What this node last learned, and whether the operator accepts it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._weakness: str | None = None

    def replace(self, durability: Durability) -> None:
        """Take over what the server says now."""
        self._weakness = durability.weakness()

    def weakness(self) -> str | None:
        """Return why no payment may be accepted, or None when one may."""
        return None if self._settings.get(UNSAFE_COMMITS) == "accept" else self._weakness

    def refusal(self) -> Refusal | None:
        """Refuse a new payment that might vanish after it was confirmed."""
        weakness = self.weakness()
        if weakness is None:
            return None
        return Refusal(
            Code.COMMITS_NOT_DURABLE,
            f"The database may lose confirmed commits: {weakness}.",
            extra={"retry_after_seconds": 30},
        )
