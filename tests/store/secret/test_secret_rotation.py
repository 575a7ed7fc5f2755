"""After a rotation the old key is worth nothing, and everything still opens."""

import pytest

from postdate.core.identity import Identity, Scope
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.destination.change.destination import Destinations
from postdate.destination.spec.destination import (
    Destination,
    DestinationSpec,
    DestinationType,
    RotateBody,
    Unavailable,
)
from postdate.destination.store.directory import DestinationDirectory
from postdate.secret import secret_rotation
from postdate.secret.secret import Keyring
from postdate.words.error import RefusedError

pytestmark = pytest.mark.own_database("it chooses the key of the database's secrets")

OLD, NEW = b"o" * 32, b"n" * 32


def who(tenant_id: int) -> Identity:
    scopes = frozenset({Scope.ADMIN})
    return Identity(tenant_id=tenant_id, tenant="t", key_id="key", scopes=scopes)


async def right(_: object) -> None:
    return None


def intake(database: Database, *keys: bytes) -> Destinations:
    return Destinations(database, Keyring(keys), Settings(), (), queues={"test": right})


async def seen(database: Database, tenant_id: int, name: str | None, *keys: bytes) -> object:
    return await DestinationDirectory(database, Keyring(keys)).resolve(tenant_id, name)


async def test_a_rotation_needs_no_old_key_afterwards(database: Database, tenant_id: int) -> None:
    before = intake(database, OLD)
    hook = DestinationSpec(name="hook", url="https://example.com/")
    await before.create(who(tenant_id), hook)
    await before.rotate(who(tenant_id), "hook", RotateBody(overlap_seconds=600))
    queue = DestinationSpec(
        name="queue", type=DestinationType.QUEUE, kind="test", config={"password": "canary"}
    )
    await before.create(who(tenant_id), queue)
    await before.signing_secret(who(tenant_id))
    names = ["hook", "queue", None]
    old = [await seen(database, tenant_id, name, OLD) for name in names]

    assert await secret_rotation.rotate(database, Keyring([NEW, OLD])) == 3
    assert await secret_rotation.rotate(database, Keyring([NEW])) == 0
    for name, known in zip(names, old, strict=True):
        found = await seen(database, tenant_id, name, NEW)
        assert isinstance(found, Destination)
        assert found == known
        assert isinstance(await seen(database, tenant_id, name, OLD), Unavailable)
    with pytest.raises(RefusedError, match="secret_key_missing"):
        await before.create(who(tenant_id), DestinationSpec(name="late", url=hook.url))
