"""Who is signed in: the browser holds a random id, this process the key behind it."""

import hmac
import secrets
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

COOKIE: Final = "postdate_session"
SESSION_SECONDS: Final = 12 * 3600
"""How long a session lasts after its last page."""

MAX_PLANS: Final = 3
"""How many dry runs a session keeps: a confirmation applies to what was shown."""

MAX_BULK_RUNS: Final = 5
"""How many bulk actions a session keeps, running and finished."""

MAX_SESSIONS: Final = 10_000
"""Beyond this, the one unused for longest is ended."""


@dataclass(slots=True)
class ConsoleSession:
    """One browser. The key is asked for at every page, so a revoked one ends at once."""

    key: str
    until: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    notice: str | None = None
    plans: dict[str, object] = field(default_factory=dict)
    works: dict[str, object] = field(default_factory=dict)
    ended: bool = False

    def admits(self, token: str) -> bool:
        """Return whether a form was made for this session."""
        return hmac.compare_digest(self.csrf.encode(), token.encode())

    def keep_plan(self, name: str, plan: object) -> None:
        """Remember what a dry run showed."""
        while len(self.plans) >= MAX_PLANS:
            del self.plans[next(iter(self.plans))]
        self.plans[name] = plan

    def plan(self, name: str) -> object:
        """Return what a dry run showed, as long as it is remembered."""
        return self.plans.get(name)

    def drop_plan(self, name: str) -> None:
        """Forget a dry run that was carried out: it counts once."""
        self.plans.pop(name, None)

    def keep_work(self, name: str, work: object) -> None:
        """Keep a bulk action that spans several requests."""
        while len(self.works) >= MAX_BULK_RUNS:
            del self.works[next(iter(self.works))]
        self.works[name] = work

    def work(self, name: str) -> object:
        """Return a bulk action, running or finished."""
        return self.works.get(name)

    def take_notice(self) -> str | None:
        """Return what the last action did, once."""
        notice, self.notice = self.notice, None
        return notice


class Sessions:
    """Sessions by the hash of their id: reading this memory's keys gives no cookie."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, ConsoleSession] = {}

    def begin(self, key: str) -> str:
        """Start a session and return its id."""
        now = time.monotonic()
        self._make_room(now)
        session_id = secrets.token_urlsafe(32)
        self._by_digest[_digest(session_id)] = ConsoleSession(key, now + SESSION_SECONDS)
        return session_id

    def find(self, session_id: str | None) -> ConsoleSession | None:
        """Return a session that has not expired, and extend it."""
        if not session_id:
            return None
        digest, now = _digest(session_id), time.monotonic()
        session = self._by_digest.pop(digest, None)
        if session is None or session.until < now:
            return None
        session.until = now + SESSION_SECONDS
        # Put back at the end: the first of the dictionary is the one unused for longest.
        self._by_digest[digest] = session
        return session

    def end(self, session_id: str | None) -> None:
        """Forget a session."""
        session = self._by_digest.pop(_digest(session_id or ""), None)
        if session is not None:
            session.ended = True

    def _make_room(self, now: float) -> None:
        while self._by_digest:
            digest, oldest = next(iter(self._by_digest.items()))
            if oldest.until >= now and len(self._by_digest) < MAX_SESSIONS:
                return
            del self._by_digest[digest]


def _digest(session_id: str) -> bytes:
    return sha256(session_id.encode()).digest()
