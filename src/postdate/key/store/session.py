"""Sessions of the console: only the cookie can decrypt the key in its row."""

import secrets
from hashlib import sha256
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postdate.database.connection.query import Connection, query
from postdate.secret.secret import NONCE_BYTES

_NAMES: Final = b"postdate session row"
_ENCRYPTS: Final = b"postdate session key"


class StoredSession(NamedTuple):
    """The key of a session, and its remaining time."""

    key: str
    seconds_left: float


class NewSession(NamedTuple):
    """A session about to begin."""

    session_id: str
    tenant_id: int
    key_id: str
    key: str


async def begin(connection: Connection, session: NewSession, seconds: float, limit: int) -> None:
    """Store a session; end the least recently used ones beyond `limit` per key."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    secret = nonce + _cipher(session.session_id).encrypt(nonce, session.key.encode(), None)
    who = (session.tenant_id, session.key_id)
    await connection.execute(query("session_make_room"), *who, limit - 1)
    digest = _digest(session.session_id)
    await connection.execute(query("session_begin"), digest, *who, secret, seconds)


async def find(connection: Connection, session_id: str) -> StoredSession | None:
    """Return a session that has not ended."""
    row = await connection.fetchrow(query("session_find"), _digest(session_id))
    if row is None:
        return None
    nonce, encrypted = row[0][:NONCE_BYTES], row[0][NONCE_BYTES:]
    return StoredSession(_cipher(session_id).decrypt(nonce, encrypted, None).decode(), row[1])


async def extend(connection: Connection, session_id: str, seconds: float) -> None:
    """Extend a session."""
    await connection.execute(query("session_extend"), _digest(session_id), seconds)


async def end(connection: Connection, session_id: str) -> None:
    """Delete a session, so that every node refuses its cookie."""
    await connection.execute(query("session_end"), _digest(session_id))


def _digest(session_id: str) -> bytes:
    return sha256(_NAMES + session_id.encode()).digest()


def _cipher(session_id: str) -> AESGCM:
    return AESGCM(sha256(_ENCRYPTS + session_id.encode()).digest())
