"""Create once for each client's key: the answer is kept in the transaction that creates."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import msgspec

from postdate.intake.accept.answers import RACES_MOST, Answer, Answers, Ask
from postdate.intake.accept.idempotency import InFlight, RaceError, canonical, in_flight
from postdate.store.connection.database import Connection, Database
from postdate.store.idempotency import idempotency as idempotency_store
from postdate.store.secret.payload_encryption import PayloadCipher

T = TypeVar("T")

Keep = Callable[[Connection, T], Awaitable[None]]
"""Called with what was made, as the last step of the transaction that made it."""

_encode: Final = msgspec.json.Encoder().encode


async def not_kept(_connection: Connection, _made: Any) -> None:
    """Keep no answer: the request came without a key."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A request that creates something, as it is compared with a later one under its key."""

    tenant_id: int
    operation: str
    key: str
    members: Mapping[str, Any]
    secret: Collection[str] = ()
    """Members that are remembered only as a keyed hash."""


class Shown(msgspec.Struct, frozen=True):
    """The answer now, and the answer to repetitions, which tells no secret again."""

    now: msgspec.Struct
    later: msgspec.Struct


class Once:
    """Run what creates something at most once for each key of a tenant."""

    def __init__(self, database: Database, cipher: PayloadCipher | None = None) -> None:
        self._database = database
        self._cipher = cipher
        self._in_flight = InFlight()

    async def run(
        self,
        wish: Wish,
        create: Callable[[Keep[T]], Awaitable[T]],
        show: Callable[[T], Shown],
        status: int,
    ) -> Answer:
        """Create and keep the answer, or give the answer that was kept.

        A refusal is not kept: nothing was made, and the next request may be allowed.
        """
        place = idempotency_store.key_of(wish.tenant_id, wish.operation, wish.key)
        with self._in_flight.hold(place):
            ask = Ask(key=place, request=await self._request(wish))

            async def keep(connection: Connection, made: T) -> None:
                answers = Answers({})
                answers.add(ask, Answer(status, _encode(show(made).later)))
                await answers.keep(connection)

            for _ in range(RACES_MOST):
                async with self._database.connection() as connection:
                    known = await Answers.find(connection, [ask])
                if not known.fresh(ask):
                    return known.known(ask)
                try:
                    made = await create(keep)
                except RaceError:
                    continue
                return Answer(status, _encode(show(made).now))
        raise in_flight()

    async def _request(self, wish: Wish) -> bytes:
        members = dict(wish.members)
        secret = [name for name in wish.secret if members.get(name) is not None]
        if secret and self._cipher is not None:
            async with self._database.write() as connection:
                await self._cipher.prepare(connection, [wish.tenant_id])
            for name in secret:
                hidden = self._cipher.digest(wish.tenant_id, canonical(members[name]))
                members[name] = {"hmac": hidden}
        return canonical(members)
