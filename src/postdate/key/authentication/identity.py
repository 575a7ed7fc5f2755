"""Find the identity of an API key."""

import asyncio
import time
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from uuid import UUID

from postdate.core import origin
from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Database
from postdate.http.login_throttle import LoginThrottle
from postdate.key.store import key as key_store

if TYPE_CHECKING:
    from postdate.key.authentication.token import Tokens

REMEMBER_SECONDS: Final = 3.0
"""How long a key is cached: the longest a revoked key is still accepted."""

MAX_REMEMBERED: Final = 10_000
TOKEN_CHARS: Final = 8192
MAX_DOUBTFUL: Final = 2
"""How many keys are looked up at once for addresses that sent too many wrong ones."""

USED_SECONDS: Final = 30.0
"""How often the last use of keys is written down."""


class Identities:
    """Looks up keys, and caches each for a moment."""

    def __init__(
        self,
        database: Database,
        login_throttle: LoginThrottle | None = None,
        tokens: "Tokens | None" = None,
    ) -> None:
        self._database = database
        self._tokens = tokens
        self.login_throttle = LoginThrottle() if login_throttle is None else login_throttle
        self._doubtful = asyncio.Semaphore(MAX_DOUBTFUL)
        self._known: dict[bytes, tuple[float, Identity | None]] = {}
        self._finding: dict[bytes, tuple[float, asyncio.Task[Identity | None]]] = {}
        self._used: set[str] = set()

    async def authenticate(self, key: str) -> Identity | None:
        """Return the identity of a valid key. Only hashes are compared, so timing tells nothing."""
        digest = sha256(key.encode()).digest()
        until, identity = self._known.get(digest, (0.0, None))
        now = time.monotonic()
        came = origin.current()
        source = came.address if came else ""
        if now >= until:
            if identity is None and self.login_throttle.waits(source, now):
                # Wrong keys from the same address must not lock out a valid key: it is still looked
                # up, but such look-ups have few database connections.
                async with self._doubtful:
                    identity = await self._find_once(key, digest)
            else:
                identity = await self._find_once(key, digest)
        if identity is None:
            self.login_throttle.count_wrong_key(source, now)
        elif identity.expires_at is None:
            self._used.add(identity.key_id)
        elif not self._holds(identity):
            return None
        return identity

    async def _find_once(self, key: str, digest: bytes) -> Identity | None:
        """Look a key up once for all requests that wait for it; cancelling one does not stop it.

        A slow look-up may have read the key before it was revoked: a request that comes later than
        the cache time starts another.
        """
        now = time.monotonic()
        begun, finding = self._finding.get(digest, (now, None))
        if finding is None or now - begun >= REMEMBER_SECONDS:
            finding = asyncio.create_task(self._find(key, digest))
            self._finding[digest] = now, finding
            finding.add_done_callback(lambda done: self._found(digest, done))
        return await asyncio.shield(finding)

    def _found(self, digest: bytes, done: asyncio.Task[Identity | None]) -> None:
        if self._finding.get(digest, (0.0, None))[1] is done:
            del self._finding[digest]
        if not done.cancelled():
            done.exception()  # waiting requests get the exception; without any, it is ignored

    async def _find(self, key: str, digest: bytes) -> Identity | None:
        now = time.monotonic()
        if self._tokens is not None and _looks_signed(key):
            identity, until = await self._tokens.look_up(key), now + REMEMBER_SECONDS
        else:
            identity, until = await self._look_up(digest, now)
        self._remember(digest, until, identity)
        return identity

    async def alive(self, actor: Identity) -> bool:
        """Return whether a key is still valid, for streams that outlast one request."""
        if actor.expires_at is not None:
            return self._holds(actor)
        async with self._database.look_up() as connection:
            return await key_store.alive(connection, UUID(actor.key_id))

    def _holds(self, actor: Identity) -> bool:
        ends = actor.expires_at
        return ends is None or self._database.unix_ms() < ends.timestamp() * 1000

    async def _look_up(self, digest: bytes, now: float) -> tuple[Identity | None, float]:
        async with self._database.look_up() as connection:
            found = await key_store.find_by_secret(connection, digest)
        if found is None or found.ended:
            return None, now + REMEMBER_SECONDS
        left = REMEMBER_SECONDS if found.seconds_left is None else found.seconds_left
        identity = Identity(
            tenant_id=found.tenant_id,
            tenant=found.tenant,
            test=found.test,
            key_id=str(found.key_id),
            scopes=frozenset(Scope(scope) for scope in found.scopes),
            accounts=None if found.accounts is None else frozenset(found.accounts),
            max_amount=found.max_amount,
            key_persons=frozenset(found.persons),
        )
        return identity, now + min(REMEMBER_SECONDS, left)

    def _remember(self, digest: bytes, until: float, identity: Identity | None) -> None:
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[digest] = (until, identity)

    async def run_once(self, _: int) -> int:
        """Store which keys were used since the last time."""
        used, self._used = self._used, set()
        if used:
            async with self._database.write() as connection:
                await key_store.used(connection, [UUID(key_id) for key_id in sorted(used)])
        return 0


def _looks_signed(key: str) -> bool:
    """Return whether a bearer credential is a token; our own keys have no dots."""
    return key.count(".") == 2 and len(key) <= TOKEN_CHARS  # noqa: PLR2004 - three parts
