"""Re-encrypt everything with the newest key, so that older keys can be removed."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from postdate.database.connection.database import Connection, Database
from postdate.database.connection.query import query
from postdate.destination.store.destination import SIGNING, config_label, secret_label
from postdate.secret import payload_encryption, receipt_key, secret
from postdate.secret.secret import Keyring, envelope_key

BATCH: Final = 200

Envelope = bytes | None


async def rotate(database: Database, keyring: Keyring) -> int:
    """Re-encrypt what an older key encrypted; return how many rows were changed.

    Servers may run meanwhile. When this has returned, no row needs an older key.
    """
    async with database.write("secret.admit") as connection:
        await secret.admit(connection, keyring)
    changed = 0
    # A row that was written between reading and replacing is left for the next round.
    while (found := await _round(database, keyring)) > 0:
        changed += found
    async with database.write("secret.forget") as connection:
        await connection.execute(query("secret_forget"), keyring.newest)
    return changed


async def _round(database: Database, keyring: Keyring) -> int:
    changed = await _walk(database, keyring, query("secret_destinations"), _destination)
    changed += await _walk(database, keyring, query("secret_signings"), _signing)
    changed += await _walk(database, keyring, query("payload_encryption_all"), _payload_key)
    return changed + await _walk(database, keyring, query("receipt_key_all"), _receipt_key)


async def _walk(
    database: Database, keyring: Keyring, text: str, renew: Callable[..., Awaitable[bool]]
) -> int:
    """Re-encrypt the rows of a table in the order of their id, the first column."""
    changed, after = 0, 0
    while True:
        async with database.write("secret.renew") as connection:
            rows = await connection.fetch(text, after, BATCH)
            for row in rows:
                changed += await renew(connection, keyring, *row)
        if not rows:
            return changed
        after = rows[-1][0]


async def _destination(
    connection: Connection,
    keyring: Keyring,
    destination_id: int,
    tenant_id: int,
    name: str,
    *old: Envelope,
) -> bool:
    labels = [config_label(name), secret_label(name), secret_label(name)]
    if (new := _encrypt_again(keyring, tenant_id, labels, old)) != list(old):
        await connection.execute(query("secret_destination_replace"), destination_id, *new, *old)
    return new != list(old)


async def _signing(
    connection: Connection, keyring: Keyring, tenant_id: int, *old: Envelope
) -> bool:
    if (new := _encrypt_again(keyring, tenant_id, [SIGNING, SIGNING], old)) != list(old):
        await connection.execute(query("secret_signing_replace"), tenant_id, *new, *old)
    return new != list(old)


async def _payload_key(
    connection: Connection, keyring: Keyring, tenant_id: int, old: Envelope
) -> bool:
    """Re-encrypt only the envelopes of payload keys; payloads stay as they are."""
    [new] = _encrypt_again(keyring, tenant_id, [payload_encryption.FIELD], [old])
    if new != old:
        await connection.execute(query("payload_encryption_replace"), tenant_id, new, old)
    return new != old


async def _receipt_key(
    connection: Connection, keyring: Keyring, number: int, old: Envelope
) -> bool:
    [new] = _encrypt_again(keyring, receipt_key.EVERYBODY, [receipt_key.FIELD], [old])
    if new != old:
        await connection.execute(query("receipt_key_replace"), number, new, old)
    return new != old


def _encrypt_again(
    keyring: Keyring, tenant_id: int, labels: Sequence[str], envelopes: Sequence[Envelope]
) -> list[Envelope]:
    return [
        each
        if each is None or envelope_key(each) == keyring.newest
        else keyring.encrypt(tenant_id, label, keyring.decrypt(tenant_id, label, each))
        for label, each in zip(labels, envelopes, strict=True)
    ]
