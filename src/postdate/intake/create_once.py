"""Create something once for each idempotency key, in the creator's own transaction."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import KeyTakenError
from postdate.intake import store
from postdate.intake.idempotency import (
    Granted,
    KeyedRequest,
    OpenKeys,
    Refused,
    canonical,
    kept_answer,
    kept_under,
    key_busy,
    keyed,
)
from postdate.intake.pipeline import MAX_RACES
from postdate.intake.store import KeyScope, key_of
from postdate.secret.payload_encryption import PayloadCipher

T = TypeVar("T")

Remember = Callable[[Connection, T], Awaitable[None]]
"""Called with what was made, as the last step of the transaction that made it."""


async def forget(_connection: Connection, _made: Any) -> None:
    """Store no answer, because the request came without a key."""


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that creates something, in the form in which it is compared with repetitions."""

    tenant_id: int
    operation: str
    key: str
    members: Mapping[str, Any]
    secret: Collection[str] = ()
    """Members that are remembered only as a keyed hash."""

    scope: KeyScope = KeyScope.OPERATION
    accounts: frozenset[str] | None = None
    """The accounts of a key that is limited to some."""


class Shown(msgspec.Struct, frozen=True):
    """The answer now, and the answer to repetitions, which repeats no secret."""

    now: msgspec.Struct
    later: msgspec.Struct
    subject: UUID | None = None


class CreateOnce:
    """Runs a creation at most once for each idempotency key of a tenant."""

    def __init__(self, database: Database, cipher: PayloadCipher | None = None) -> None:
        self._database = database
        self._cipher = cipher
        self._open_keys = OpenKeys()

    async def run(
        self,
        wanted: CreateRequest,
        create: Callable[[Remember[T]], Awaitable[T]],
        show: Callable[[T], Shown],
        status: int,
    ) -> Granted | Refused:
        """Create and store the answer, or return the stored answer.

        A refusal is not stored: nothing was created, and the next request may be allowed.
        """
        key = key_of(wanted.tenant_id, wanted.scope, wanted.key, wanted.operation)
        with self._open_keys.hold(key):
            request = keyed(key, await self._canonical(wanted), wanted.accounts)

            async def remember(connection: Connection, made: T) -> None:
                now, shown = await clock.now(connection), show(made)
                row = kept_under(request, shown.later, now, shown.subject)
                await store.insert(connection, [row])

            for _ in range(MAX_RACES):
                known = await self._known(request, status)
                if known is not None:
                    return known
                try:
                    shown = show(await create(remember))
                except KeyTakenError:
                    continue
                return Granted(shown.now, shown.subject, status)
        raise key_busy()

    async def _known(self, request: KeyedRequest, status: int) -> Granted | Refused | None:
        async with self._database.connection() as connection:
            found = await store.find(connection, [request.key])
        if not found:
            return None
        await self._database.confirm()
        return kept_answer(found[request.key], request, status)

    async def _canonical(self, wanted: CreateRequest) -> bytes:
        members = dict(wanted.members)
        secret = [name for name in wanted.secret if members.get(name) is not None]
        if secret and self._cipher is not None:
            async with self._database.write() as connection:
                await self._cipher.prepare(connection, [wanted.tenant_id])
            for name in secret:
                hidden = self._cipher.digest(wanted.tenant_id, canonical(members[name]))
                members[name] = {"hmac": hidden}
        return canonical(members)
