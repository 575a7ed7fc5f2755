"""The open connections: limits on their number, and a watch for slow clients."""

import asyncio
import resource
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from postdate.core.log import Log
from postdate.http.request_starts import RequestStarts
from postdate.http.unread import UnreadBytes

LOOK_SECONDS: Final = 1.0
"""How often slow connections are searched."""

SPARE_DESCRIPTORS: Final = 512
"""Descriptors left for the database, for calls that go out, and for files."""

_log = Log()


class OpenConnection(Protocol):
    """What is known of an open connection."""

    address: str
    quiet_since: float

    def drop(self) -> None:
        """End it at once."""

    def close_if_idle(self) -> None:
        """End it, unless a request is being served."""

    def overdue(self, now: float, head_seconds: float) -> bool:
        """Return whether its client has been slow for longer than it may be."""


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many connections there may be; `exempt` says which address may have all of them."""

    total: int = 4096
    per_address: int = 1024
    exempt: Callable[[str], bool] = lambda _: False


def make_room(wanted: int) -> int:
    """Raise the file limit for this many connections, and return how many are possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_DESCRIPTORS
    if soft < needed or soft == resource.RLIM_INFINITY:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(min(wanted, soft - SPARE_DESCRIPTORS), 64)


class Connections:
    """The open connections of a server.

    A client that connects when there is no room replaces the connection that has been quiet for
    longest: of its own address when that has too many, else of all.
    """

    def __init__(self, limits: ConnectionLimits, head_seconds: float) -> None:
        self._limits = limits
        self._head_seconds = head_seconds
        self._open: set[OpenConnection] = set()
        self._of_address: Counter[str] = Counter()
        # Dictionaries as ordered sets: what has been quiet for longest stands first.
        self._quiet: dict[OpenConnection, None] = {}
        self._quiet_of: defaultdict[str, dict[OpenConnection, None]] = defaultdict(dict)
        self._shed = 0
        self.closing = False
        self.unread_requests = UnreadBytes(limits.exempt)
        self.unread_answers = UnreadBytes(limits.exempt)
        self.starts = RequestStarts()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, new: OpenConnection) -> bool:
        """Accept a connection, closing an idle one to make room if needed."""
        self._open.add(new)
        self._of_address[new.address] += 1
        many = self._of_address[new.address] > self._limits.per_address
        if many and not self._limits.exempt(new.address):
            admitted = self._shed_one(self._quiet_of[new.address])
        elif len(self._open) > self._limits.total:
            admitted = self._shed_one(self._quiet)
        else:
            admitted = True
        if admitted:
            self.idle(new)
        return admitted

    def _shed_one(self, quiet: dict[OpenConnection, None]) -> bool:
        victim = next(iter(quiet), None)
        if victim is None:
            return False
        self._shed += 1
        self.leave(victim)
        victim.drop()
        return True

    def leave(self, gone: OpenConnection) -> None:
        """Remove a connection; removing it again does nothing."""
        self.busy(gone)
        self.unread_requests.release(gone)
        self.unread_answers.release(gone)
        if gone in self._open:
            self._open.discard(gone)
            self._of_address[gone.address] -= 1
            if not self._of_address[gone.address]:
                del self._of_address[gone.address]

    def busy(self, serving: OpenConnection) -> None:
        """Record that a request of a connection is being served."""
        self._quiet.pop(serving, None)
        own = self._quiet_of.get(serving.address)
        if own is not None:
            own.pop(serving, None)
            if not own:
                del self._quiet_of[serving.address]

    def idle(self, quiet: OpenConnection) -> None:
        """Record that a connection waits for its next request."""
        if quiet in self._open:
            quiet.quiet_since = time.monotonic()
            self._quiet[quiet] = None
            self._quiet_of[quiet.address][quiet] = None

    async def watch(self) -> None:
        """Periodically drop the connections of slow clients, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            for each in [one for one in self._open if one.overdue(now, self._head_seconds)]:
                each.drop()
            if self._shed:
                _log.warning("connections closed", count=self._shed, open=len(self._open))
                self._shed = 0

    def close_idle(self) -> None:
        """Close idle connections, and the others after their current request."""
        self.closing = True
        for each in list(self._quiet):
            each.close_if_idle()

    def drop_all(self) -> None:
        """Close the remaining connections."""
        for each in list(self._open):
            each.drop()
