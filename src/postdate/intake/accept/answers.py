"""Answers under keys: what a group of requests is told, now and whenever they are repeated."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Self, TypeVar
from uuid import UUID

import msgspec

from postdate.intake.accept.idempotency import RaceError, Replay, in_flight, judge
from postdate.model.error import Refusal
from postdate.store.connection.database import Connection, Database
from postdate.store.idempotency import idempotency as idempotency_store
from postdate.store.idempotency.idempotency import Kept, Key

RACES_MOST: Final = 3
"""How often a group is begun again because another node answered one of its keys meanwhile."""

CREATED: Final = 201
SUCCESS_BELOW: Final = 300

_encode: Final = msgspec.json.Encoder().encode
_refusal: Final = msgspec.json.Decoder(Refusal)

T = TypeVar("T")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request under a key; what is asked stands in the classes made of it."""

    key: Key
    request: bytes


class Answer(msgspec.Struct, frozen=True):
    """What a request is told: `response` is JSON, a refusal where the status says so."""

    status: int
    response: bytes
    subject: UUID | None = None
    replayed: bool = False

    @property
    def refusal(self) -> Refusal | None:
        """Give the refusal, if it is one."""
        return None if self.status < SUCCESS_BELOW else _refusal.decode(self.response)


def created(body: msgspec.Struct, subject: UUID) -> Answer:
    """Answer with something new."""
    return Answer(CREATED, _encode(body), subject)


def refused(refusal: Refusal) -> Answer:
    """Answer with a refusal."""
    return Answer(refusal.status, _encode(refusal))


class Answers:
    """The answers of one group: those known before, and those that its transaction adds."""

    def __init__(self, known: dict[Key, Kept]) -> None:
        self._known = known
        self._added: list[Kept] = []

    @classmethod
    async def find(cls, connection: Connection, asks: Sequence[Ask]) -> Self:
        """Look up what is known under the keys of a group."""
        keys = list({ask.key for ask in asks})
        return cls(await idempotency_store.find(connection, keys))

    def fresh(self, ask: Ask) -> bool:
        """Say whether a key is new."""
        return ask.key not in self._known

    def known(self, ask: Ask) -> Answer:
        """Answer a request whose key is known: the same again, or what differs."""
        kept = self._known[ask.key]
        match judge(kept, ask.request):
            case Replay(status, response):
                return Answer(status, response, kept.subject, replayed=True)
            case refusal:
                return refused(refusal)

    def add(self, ask: Ask, answer: Answer) -> Answer:
        """Remember an answer, a refusal as well: within the same group, and for ever."""
        kept = Kept(*ask.key, answer.subject, answer.status, ask.request, answer.response)
        self._known[ask.key] = kept
        self._added.append(kept)
        return answer

    async def keep(self, connection: Connection) -> None:
        """Insert what was added: the last statement of the transaction."""
        if not await idempotency_store.insert(connection, self._added):
            raise RaceError


async def commit(
    database: Database, write: Callable[[Connection], Awaitable[T]], most: int = RACES_MOST
) -> T:
    """Run a group in one transaction, again if another node was quicker with one of its keys."""
    for _ in range(most):
        try:
            async with database.write() as connection:
                return await write(connection)
        except RaceError:
            continue
    raise in_flight()
