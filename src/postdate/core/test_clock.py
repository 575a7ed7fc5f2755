"""Test clocks: the time of a tenant in test mode stands still until it is advanced.

Whatever runs on behalf of such a tenant knows it by a context variable: its transactions then read
the tenant's clock instead of the server's, and its timers lie in lanes of its own.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postdate.words.error import Code, RefusedError, refuse

MAX_ADVANCE: Final = timedelta(days=3660)
"""The furthest that one advance goes: ten years and some days."""

LANES_PER_TENANT: Final = 16
"""The system has fewer lanes than this; lane_purpose in the schema counts the same way."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(?:(\d{1,12})([wdhms]))(?:(\d{1,12})([wdhms]))*")
_PART: Final = re.compile(r"(\d{1,12})([wdhms])")

_current: Final[ContextVar[int | None]] = ContextVar("test_tenant", default=None)


class AdvanceEntry(msgspec.Struct, frozen=True):
    """Something that happened while a test clock was advanced."""

    number: int
    at: datetime
    type: str
    subject: str
    outcome: dict[str, object]


def current_tenant() -> int | None:
    """Return the tenant in test mode on whose behalf this runs; None for everybody else."""
    return _current.get()


def follow(tenant_id: int | None) -> None:
    """Follow the clock of a tenant from now on in this task, or the server's."""
    _current.set(tenant_id)


@contextmanager
def following_tenant(tenant_id: int | None) -> Iterator[None]:
    """Follow the clock of a tenant meanwhile, or the server's."""
    before = _current.set(tenant_id)
    try:
        yield
    finally:
        _current.reset(before)


def own_lane(lane_id: int) -> int:
    """Return the lane of the system in which things of the current tenant lie."""
    tenant_id = _current.get()
    return lane_id if tenant_id is None else lane_in_test(tenant_id, lane_id)


def lane_in_test(tenant_id: int, lane_id: int) -> int:
    """Return the lane that a tenant in test mode has in the place of one of the system's."""
    return -(tenant_id * LANES_PER_TENANT + lane_id)


def lane_purpose(lane_id: int) -> int:
    """Return which of the system's lanes one stands for."""
    return -lane_id % LANES_PER_TENANT if lane_id < 0 else lane_id


def parse_duration(text: str) -> timedelta:
    """Read "30d", "1h30m" or "0s"; refuse everything else."""
    if _DURATION.fullmatch(text) is None:
        raise _refused(f"{text!r} is not a duration: write 90s, 15m, 12h, 30d, 2w or 1d12h.")
    seconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return check_duration(seconds)


def check_duration(seconds: float, field: str = "by") -> timedelta:
    """Refuse to go further at once than is sensible."""
    if seconds > MAX_ADVANCE.total_seconds():
        raise _refused(f"A test clock advances by at most {MAX_ADVANCE.days} days.", field)
    return timedelta(seconds=seconds)


def _refused(detail: str, field: str = "by") -> RefusedError:
    return refuse(Code.INVALID_FIELD, detail, field)
