"""The keys that sign receipts: the newest signs, all are published."""

from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from postdate.audit.spec import SYSTEM
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.query import fetch_all, query
from postdate.event.store.event import named, record_event
from postdate.receipt.spec import key_id_of
from postdate.secret import secret
from postdate.secret.secret import Keyring

FIELD: Final = "receipt-key"
EVERYBODY: Final = 0
"""Envelopes are bound to a tenant; these keys serve all of them."""


class ReceiptKey(msgspec.Struct, frozen=True):
    """A key: its public half, and the envelope of the private one."""

    key_id: str
    public_key: bytes
    envelope: bytes


class ReceiptKeys:
    """Signs with the newest key; the first receipt creates one."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    async def signer(self) -> tuple[ReceiptKey, Ed25519PrivateKey]:
        """Return the key that signs now."""
        async with self._database.connection() as connection:
            known = await published(connection)
        if not known:
            async with self._database.write() as connection:
                await secret.admit(connection, self._keyring)
                known = await published(connection) or [await create(connection, self._keyring)]
        return known[0], self._open(known[0])

    async def rotate(self) -> ReceiptKey:
        """Create a new key, which signs from now on."""
        async with self._database.write("receipt_key.rotate") as connection:
            await secret.admit(connection, self._keyring)
            return await create(connection, self._keyring)

    async def published(self) -> list[ReceiptKey]:
        """Return every key, the one that signs first."""
        async with self._database.connection() as connection:
            return await published(connection)

    def _open(self, key: ReceiptKey) -> Ed25519PrivateKey:
        opened = self._keyring.decrypt(EVERYBODY, FIELD, key.envelope)
        return Ed25519PrivateKey.from_private_bytes(opened)


async def create(connection: Connection, keyring: Keyring) -> ReceiptKey:
    """Make a key."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    envelope = keyring.encrypt(EVERYBODY, FIELD, private.private_bytes_raw())
    key = ReceiptKey(key_id_of(public), public, envelope)
    await connection.execute(query("receipt_key_create"), key.key_id, public, envelope)
    about = named(EVERYBODY, "receipt_key", key.key_id)
    await record_event(connection, about, "receipt_key.created", SYSTEM, {"name": key.key_id})
    return key


async def published(connection: Connection) -> list[ReceiptKey]:
    """Return every key, the newest first."""
    return await fetch_all(connection, ReceiptKey, "receipt_key_list")
