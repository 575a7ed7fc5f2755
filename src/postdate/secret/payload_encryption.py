"""Payloads at rest: encrypted with their tenant's key if the tenant turns that on.

An encrypted payload is bound to its tenant and job, so that a copy in another row cannot be
decrypted. Unencrypted payloads stay readable: a prefix distinguishes the two.
"""

import hmac
import secrets
from collections.abc import Collection
from hashlib import sha256
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from postdate.database.connection.query import Connection, Reader, query
from postdate.secret import secret
from postdate.secret.secret import KEY_BYTES, NONCE_BYTES, Keyring, SecretError

MARK: Final = b"\x00pd-sealed\x01"
"""Prefix of an encrypted payload. A client's payload must not start with it."""

FIELD: Final = "payload-key"


class PayloadCipher:
    """The keys of tenants, decrypted once per process."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._keys: dict[int, bytes] = {}
        # Whose key was found stored. One that was made may have been rolled back since: it is
        # looked up once more before anything else is encrypted with it.
        self._stored: set[int] = set()

    async def prepare(self, connection: Connection, tenant_ids: Collection[int]) -> None:
        """Load the keys of these tenants, and create missing ones.

        Call it once per transaction: a second call would treat a newly created key as stored.
        """
        for tenant_id in tenant_ids:
            if tenant_id not in self._stored and not await self._find(connection, tenant_id):
                self._keys[tenant_id] = await self._make(connection, tenant_id)

    def encrypt(self, tenant_id: int, job_id: UUID, payload: bytes) -> bytes:
        """Encrypt the payload of one job; the tenant's key must be loaded."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        encrypted = AESGCM(self._keys[tenant_id]).encrypt(nonce, payload, _bound(tenant_id, job_id))
        return MARK + nonce + encrypted

    def digest(self, tenant_id: int, payload: bytes) -> str:
        """Return a keyed hash of a payload, comparable within this tenant only."""
        return hmac.new(self._keys[tenant_id], payload, sha256).hexdigest()

    async def decrypt(
        self, connection: Reader, tenant_id: int, job_id: UUID, payload: bytes | None
    ) -> bytes | None:
        """Return a decrypted payload; return an unencrypted one unchanged."""
        if payload is None or not payload.startswith(MARK):
            return payload
        if tenant_id not in self._stored and not await self._find(connection, tenant_id):
            raise SecretError("the key of the tenant's payloads is gone")
        start = len(MARK) + NONCE_BYTES
        nonce, encrypted = payload[len(MARK) : start], payload[start:]
        try:
            key = AESGCM(self._keys[tenant_id])
            return key.decrypt(nonce, encrypted, _bound(tenant_id, job_id))
        except InvalidTag as error:
            raise SecretError("the payload was changed, or stands in another place") from error

    async def _find(self, connection: Reader, tenant_id: int) -> bool:
        """Load the stored key of a tenant; return whether there is one."""
        found = await connection.fetchval(query("payload_encryption_find"), tenant_id)
        if found is not None:
            self._keys[tenant_id] = self._keyring.decrypt(tenant_id, FIELD, found)
            self._stored.add(tenant_id)
        return found is not None

    async def _make(self, connection: Connection, tenant_id: int) -> bytes:
        """Create the key of a tenant, or wait for the one that another transaction is creating."""
        await secret.admit(connection, self._keyring)
        new = self._keyring.encrypt(tenant_id, FIELD, secrets.token_bytes(KEY_BYTES))
        await connection.execute(query("payload_encryption_create"), tenant_id, new)
        found = await connection.fetchval(query("payload_encryption_find"), tenant_id)
        return self._keyring.decrypt(tenant_id, FIELD, found)


def _bound(tenant_id: int, job_id: UUID) -> bytes:
    return f"{tenant_id}/{job_id}".encode()
