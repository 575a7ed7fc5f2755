"""Envelopes open with their key, for their tenant, in their place, and not otherwise."""

import secrets
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postdate.database.connection.database import Database
from postdate.secret import secret
from postdate.secret.secret import Keyring, SecretError, parse_key
from postdate.words.error import Code, RefusedError

pytestmark = pytest.mark.own_database("it chooses the key of the database's secrets")

OLD, NEW = b"o" * 32, b"n" * 32
RING = Keyring([OLD])


@given(st.binary(max_size=300), st.integers(1, 2**31), st.text(max_size=40))
def test_what_goes_in_comes_out(value: bytes, tenant_id: int, place: str) -> None:
    envelope = RING.encrypt(tenant_id, place, value)
    assert RING.decrypt(tenant_id, place, envelope) == value
    assert len(value) < 8 or value not in envelope


def test_an_envelope_opens_in_its_own_place_only() -> None:
    envelope = RING.encrypt(1, "destination/a", b"secret")
    for tenant_id, place in ((2, "destination/a"), (1, "destination/b"), (1, "")):
        with pytest.raises(SecretError):
            RING.decrypt(tenant_id, place, envelope)


def test_every_changed_byte_is_noticed() -> None:
    envelope = RING.encrypt(1, "x", b"secret")
    for position in range(len(envelope)):
        changed = bytearray(envelope)
        changed[position] ^= 1
        with pytest.raises(SecretError):
            RING.decrypt(1, "x", bytes(changed))
    for length in range(len(envelope)):
        with pytest.raises(SecretError):
            RING.decrypt(1, "x", envelope[:length])


def test_the_newest_key_encrypts_and_all_decrypt() -> None:
    before = RING.encrypt(1, "x", b"secret")
    both = Keyring([NEW, OLD])
    after = both.encrypt(1, "x", b"secret")
    assert both.decrypt(1, "x", before) == both.decrypt(1, "x", after) == b"secret"
    assert Keyring([NEW]).decrypt(1, "x", after) == b"secret"
    with pytest.raises(SecretError, match="not known to this node"):
        RING.decrypt(1, "x", after)


def test_equal_values_look_different() -> None:
    assert RING.encrypt(1, "x", b"secret") != RING.encrypt(1, "x", b"secret")


def test_keys_are_read_as_hexadecimal_or_base64() -> None:
    key = secrets.token_bytes(32)
    assert parse_key(key.hex()) == parse_key(b64encode(key).decode()) == key
    for wrong in ("", "short", "z" * 64, "ab" * 31, b64encode(b"short").decode()):
        with pytest.raises(ValueError, match="32 bytes"):
            parse_key(wrong)


async def test_a_node_with_a_key_of_its_own_keeps_no_secrets(database: Database) -> None:
    async with database.write() as connection:
        await secret.admit(connection, RING)
        await secret.admit(connection, RING)
    with pytest.raises(RefusedError) as refused:
        async with database.write() as connection:
            await secret.admit(connection, Keyring([NEW]))
    assert refused.value.refusal.code is Code.SECRET_KEY_MISSING
    async with database.write() as connection:
        await secret.admit(connection, Keyring([NEW, OLD]))
        await secret.admit(connection, Keyring([NEW]))


async def test_no_number_of_destinations_hides_what_else_needs_a_key(
    database: Database, tenant_id: int
) -> None:
    """A cut over all secrets would name a thousand destinations and not the payloads."""
    old, new = (
        Keyring([key]).encrypt(tenant_id, "x", b"it is only asked which key it needs")
        for key in (OLD, NEW)
    )
    await database.writer.execute(
        """INSERT INTO destination (tenant_id, name, type, url, secret)
           SELECT $1, 'd' || to_char(number, 'FM0000'), 'webhook', 'https://example.com/',
                  CASE WHEN number = 1500 THEN $3::bytea ELSE $2::bytea END
             FROM generate_series(1, 1500) AS number""",
        tenant_id,
        old,
        new,
    )
    for table, column in (("signing_secret", "secret"), ("payload_key", "envelope")):
        await database.writer.execute(
            f"INSERT INTO {table} (tenant_id, {column}) VALUES ($1, $2)",
            tenant_id,
            new,
        )
    found = await secret.list_needed(database.tenant_reader(tenant_id), tenant_id, 2)
    one, two = secret.key_id(OLD), secret.key_id(NEW)
    assert sorted(found) == sorted(
        [
            (one, "destination", "d0001"),
            (one, "destination", "d0002"),
            (two, "destination", "d1500"),
            (two, "payload", ""),
            (two, "url", ""),
        ]
    )
