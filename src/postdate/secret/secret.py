"""Secrets at rest: AES-256-GCM envelopes whose keys are not in the database.

Each value has its own data key, wrapped by one of the server's keys. Both layers are bound to the
tenant and the field, so that an envelope copied to another row cannot be decrypted.
"""

import secrets
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postdate.database.connection.query import Connection, Reader, query
from postdate.words.error import Code, Refusal, RefusedError

KEY_BYTES: Final = 32
KEY_ID_BYTES: Final = 4
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
VERSION: Final = 1

_HEAD: Final = 1 + KEY_ID_BYTES
_WRAPPED: Final = _HEAD + NONCE_BYTES + KEY_BYTES + TAG_BYTES


class SecretError(Exception):
    """An envelope cannot be opened: its key is missing, or it is not what was written."""


class SecretKeyMissingError(SecretError, RefusedError):
    """A secret key is missing on this node; another one may have it, so nothing is lost yet."""

    def __init__(self, detail: str) -> None:
        RefusedError.__init__(self, Refusal(Code.SECRET_KEY_MISSING, detail))


def parse_key(text: str) -> bytes:
    """Read a key of 32 bytes from 64 hexadecimal digits or from base64."""
    try:
        found = (
            bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else b64decode(text, validate=True)
        )
    except ValueError as error:
        raise ValueError("a secret key is 32 bytes in hexadecimal or base64") from error
    if len(found) != KEY_BYTES:
        raise ValueError("a secret key is 32 bytes in hexadecimal or base64")
    return found


def key_id(key: bytes) -> int:
    """Return the id of a key: a part of its hash, which reveals nothing about it."""
    digest = sha256(b"postdate secret key" + key).digest()
    return int.from_bytes(digest[:KEY_ID_BYTES], "big")


class KeyNeed(NamedTuple):
    """A secret of a tenant, and the key that opens it."""

    key_id: int
    kind: str
    """`destination`, `url` for what signs calls of bare URLs, or `payload`."""
    name: str


class Keyring:
    """The server's keys: the first encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {key_id(key): AESGCM(key) for key in keys}
        self._newest = key_id(keys[0]) if keys else None

    @property
    def newest(self) -> int:
        """Return the id of the key that encrypts; raise if the node has none."""
        if self._newest is None:
            raise SecretKeyMissingError("This node was given no secret key.")
        return self._newest

    @property
    def ids(self) -> list[int]:
        """Return the ids of all keys."""
        return sorted(self._keys)

    def encrypt(self, tenant_id: int, label: str, value: bytes) -> bytes:
        """Encrypt a value so that it can be decrypted only for this tenant and field."""
        head = bytes([VERSION]) + self.newest.to_bytes(KEY_ID_BYTES, "big")
        bound = head + f"{tenant_id}/{label}".encode()
        data_key = secrets.token_bytes(KEY_BYTES)
        outer, inner = secrets.token_bytes(NONCE_BYTES), secrets.token_bytes(NONCE_BYTES)
        wrapped = self._keys[self.newest].encrypt(outer, data_key, bound)
        return head + outer + wrapped + inner + AESGCM(data_key).encrypt(inner, value, bound)

    def decrypt(self, tenant_id: int, label: str, envelope: bytes) -> bytes:
        """Open an envelope."""
        if len(envelope) < _WRAPPED + NONCE_BYTES + TAG_BYTES or envelope[0] != VERSION:
            raise SecretError("this is no envelope of ours")
        key = self._keys.get(envelope_key(envelope))
        if key is None:
            missing = f"{envelope_key(envelope):08x}"
            raise SecretKeyMissingError(f"The secret key {missing} is not known to this node.")
        bound = envelope[:_HEAD] + f"{tenant_id}/{label}".encode()
        outer, inner = envelope[_HEAD : _HEAD + NONCE_BYTES], envelope[_WRAPPED:]
        try:
            data_key = key.decrypt(outer, envelope[_HEAD + NONCE_BYTES : _WRAPPED], bound)
            return AESGCM(data_key).decrypt(inner[:NONCE_BYTES], inner[NONCE_BYTES:], bound)
        except InvalidTag as error:
            raise SecretError("the envelope was changed, or stands in another place") from error


def envelope_key(envelope: bytes) -> int:
    """Read which key an envelope needs."""
    return int.from_bytes(envelope[1:_HEAD], "big")


async def list_known(connection: Connection) -> set[int]:
    """Return the ids of the keys that have encrypted something here."""
    return {row[0] for row in await connection.fetch(query("secret_keys"))}


async def list_needed(reader: Reader, tenant_id: int, max_each: int) -> list[KeyNeed]:
    """Return the keys that a tenant's secrets need, with a few secrets of each kind and key."""
    rows = await reader.fetch(query("secret_needed"), tenant_id, max_each)
    return [KeyNeed(*row) for row in rows]


async def admit(connection: Connection, keyring: Keyring) -> None:
    """Refuse a node that has none of the known keys; record its newest key."""
    newest = keyring.newest
    await connection.execute(query("secret_lock"))
    known = await list_known(connection)
    if known and known.isdisjoint(keyring.ids):
        raise SecretKeyMissingError(
            "The secrets here were encrypted with a key that this node does not have."
        )
    if newest not in known:
        await connection.execute(query("secret_key_add"), newest)
