"""Slow down clients that try invalid keys."""

from collections import OrderedDict
from typing import Final, NamedTuple

from postdate.words.error import Code, refuse

FREE: Final = 20
"""Wrong keys from one address that cost nothing: people mistype, deployments lag."""

FIRST_SECONDS: Final = 1.0
MAX_SECONDS: Final = 60.0
FORGET_SECONDS: Final = 300.0
MAX_REMEMBERED: Final = 10_000
"""Addresses remembered; beyond it, the one that failed longest ago is forgotten."""


class _FailedLogins(NamedTuple):
    failures: int
    at: float
    until: float


class LoginThrottle:
    """Failed tries by address, in this process; the wait doubles with each beyond the free ones."""

    def __init__(self, free: int = FREE) -> None:
        self._free = free
        self._known: OrderedDict[str, _FailedLogins] = OrderedDict()

    def waits(self, address: str, now: float) -> bool:
        """Return whether an address has to wait."""
        known = self._known.get(address)
        return known is not None and now < known.until

    def count_wrong_key(self, address: str, now: float) -> None:
        """Count a wrong key, or refuse it where its address has to wait."""
        if self.waits(address, now):
            raise refuse(
                Code.RATE_LIMITED,
                "Your address has sent too many invalid keys.",
                retry_after_seconds=round(self._known[address].until - now, 3),
            )
        known = self._known.pop(address, None)
        count = 1 if known is None or now - known.at > FORGET_SECONDS else known.failures + 1
        over = count - self._free
        wait = min(MAX_SECONDS, FIRST_SECONDS * 2.0 ** min(over - 1, 10)) if over > 0 else 0.0
        self._known[address] = _FailedLogins(count, now, now + wait)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        """Count the addresses remembered."""
        return len(self._known)
