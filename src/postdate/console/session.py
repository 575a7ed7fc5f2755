"""Who is signed in: the browser holds a random id, which opens the key behind it."""

import hmac
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postdate.key.change.session import ConsoleSessions

COOKIE: Final = "postdate_session"
CHECK_SECONDS: Final = 2.0
"""How long a session that ends on another node is still admitted here."""

MAX_PLANS: Final = 3
"""How many dry runs a session keeps: a confirmation applies to what was shown."""

MAX_SESSIONS: Final = 10_000
"""The most sessions that a process remembers; one beyond loses its dry runs, nothing else."""

MAX_NOTICE_CHARS: Final = 1000
NONCE_BYTES: Final = 12


@dataclass(slots=True)
class ConsoleSession:
    """One browser. The key is asked for at every page, so a revoked one ends at once."""

    key: str
    csrf: str
    checked_until: float = 0.0
    plans: dict[str, object] = field(default_factory=dict)

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

    def pack_notice(self, notice: str) -> str:
        """Return what the last action did as a cookie, for the node that shows the next page.

        It may name a new key, so it is encrypted: only the nodes that know the session read it.
        """
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._cipher().encrypt(nonce, notice[:MAX_NOTICE_CHARS].encode(), None)
        # Without padding: a cookie does not hold `=` as it is.
        return urlsafe_b64encode(sealed).decode().rstrip("=")

    def unpack_notice(self, cookie: str | None) -> str | None:
        """Return a notice that a node of ours has written for this session."""
        text = cookie or ""
        try:
            sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
            return self._cipher().decrypt(nonce, rest, None).decode()
        except (InvalidTag, ValueError):
            return None

    def _cipher(self) -> AESGCM:
        secret = f"{self.key}\n{self.csrf}".encode()
        return AESGCM(hmac.digest(secret, b"postdate notice", "sha256"))


class Sessions:
    """The sessions that this process serves: each is asked for again after a moment.

    Any node may serve any page of a session. Dry runs are kept by the process that showed them.
    """

    def __init__(self, kept: ConsoleSessions) -> None:
        self._kept = kept
        self._by_digest: dict[bytes, ConsoleSession] = {}
        # How many sessions have ended here: what was asked for before one did may be out of date.
        self._ends = 0

    async def find(self, session_id: str | None) -> ConsoleSession | None:
        """Return a session that has neither expired nor ended, here or on another node."""
        if not session_id:
            return None
        digest, now = _digest(session_id), time.monotonic()
        session = self._by_digest.get(digest)
        if session is None or session.checked_until < now:
            ends = self._ends
            key = await self._kept.find(session_id)
            # Another page of the browser may have asked meanwhile: both get the same session.
            session = self._by_digest.pop(digest, session)
            if key is None:
                return None
            session = session or ConsoleSession(key, _token(session_id))
            session.checked_until = now + CHECK_SECONDS if ends == self._ends else 0.0
        # Put back at the end: the first of the dictionary is the one unused for longest.
        self._by_digest.pop(digest, None)
        self._by_digest[digest] = session
        while len(self._by_digest) > MAX_SESSIONS:
            del self._by_digest[next(iter(self._by_digest))]
        return session

    async def end(self, session_id: str) -> None:
        """End a session on every node."""
        await self._kept.end(session_id)
        self._by_digest.pop(_digest(session_id), None)
        self._ends += 1


def _digest(session_id: str) -> bytes:
    return sha256(session_id.encode()).digest()


def _token(session_id: str) -> str:
    """Return the token of a session's forms, which every node can tell from its cookie."""
    return hmac.new(session_id.encode(), b"postdate form", sha256).hexdigest()
