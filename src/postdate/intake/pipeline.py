"""The single way in for jobs and payments: one or many, from clients or from schedules.

    validate → idempotency → limits → write → events → answer

What differs between jobs and payments is a `Strategy`. One commit handles an `AcceptGroup`: it
reads everything needed to decide in one statement, decides in memory, and writes in one statement,
which is its own transaction. The write fails if something has changed since the read. Each job and
payment is its own first event; its address goes into the outbox with it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

import msgspec

from postdate.core.log import Log
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import KeyTakenError, StaleAccountError, TransientError
from postdate.intake.idempotency import (
    CREATED,
    KeyedRequest,
    Refused,
    kept_answer,
    kept_differences,
    kept_under,
    key_busy,
    reused,
)
from postdate.intake.store import IdempotencyKey, IdempotencyRow
from postdate.words.error import Code, Refusal

log = Log()

MAX_RACES: Final = 3
"""How often a group is begun again because another node used one of its keys, or has changed an
account, meanwhile."""


class Checked(Protocol):
    """An item that was found valid, and the key it came with."""

    @property
    def keyed(self) -> KeyedRequest | None:
        """Return the request under its key."""


class Accepted(Protocol):
    """Something that was accepted, now or when its key was first used."""

    @property
    def subject(self) -> UUID:
        """Return the id of what was made."""

    @property
    def status(self) -> int:
        """Return the HTTP status of the answer."""

    @property
    def body(self) -> msgspec.Struct:
        """Return the body that the client receives."""

    @property
    def replayed(self) -> bool:
        """Return whether this is a repeated answer."""


Item = TypeVar("Item")
Valid = TypeVar("Valid", bound=Checked)
Made = TypeVar("Made", bound=Accepted)


class Known(NamedTuple, Generic[Valid]):
    """An item whose key was used before."""

    number: int
    item: Valid
    request: KeyedRequest
    row: IdempotencyRow


class AcceptGroup(ABC, Generic[Valid, Made]):
    """The items that one commit decides on and writes."""

    remembers_refusals: bool = False
    """Whether a refusal is kept under the item's key, and given again."""

    one_statement: bool = True
    """Whether all of it is written by one statement, which then is its own transaction."""

    def __init__(self, now: datetime, known: Mapping[IdempotencyKey, IdempotencyRow]) -> None:
        self.now = now
        self.known = dict(known)
        self.keys: list[IdempotencyRow] = []

    @abstractmethod
    def begin(self, items: Sequence[Valid | Refusal]) -> None:
        """Prepare what all decisions of the group share."""

    def limit(self, item: Valid) -> Refusal | None:  # noqa: ARG002 - by default there is no quota
        """Refuse an item beyond its tenant's quota; this refusal is never stored."""
        return None

    @abstractmethod
    def decide(self, number: int, item: Valid) -> Made | Refusal:
        """Decide on the item with this number, taking the items before it into account."""

    def row(self, request: KeyedRequest, made: Made) -> IdempotencyRow:
        """Return the row of a key whose answer follows from the request and what it made."""
        return IdempotencyRow(request.key, request.fingerprint, made.subject, self.now)

    @abstractmethod
    async def write(self, connection: Connection) -> None:
        """Write the decisions and `keys`; raise if what was read has changed."""


class Strategy(ABC, Generic[Item, Valid, Made]):
    """What differs between the kinds of things that are accepted."""

    @abstractmethod
    async def validate(self, items: Sequence[Item]) -> list[Valid | Refusal]:
        """Validate what needs no transaction; a refusal from here is never stored."""

    @abstractmethod
    async def look(
        self, connection: Connection, items: Sequence[Valid], *, locked: bool
    ) -> AcceptGroup[Valid, Made]:
        """Read what decisions need: time, keys, accounts; lock them only if asked to."""

    def locks(self, items: Sequence[Valid | Refusal]) -> bool:  # noqa: ARG002 - mostly not
        """Return whether what decisions about these items rest on is locked from the start."""
        return False

    async def replay(self, connection: Connection, known: Sequence[Known[Valid]]) -> list[Made]:
        """Rebuild the first answers to these keys from what they created."""
        raise TypeError(f"{type(self).__name__} keeps its answers: {connection}, {known}")

    def stored_answer(self, known: Known[Valid]) -> Made | Refused:
        """Return the answer that is stored under a key."""
        refused = kept_answer(known.row, known.request, CREATED)
        if not isinstance(refused, Refused):
            raise TypeError("only refusals are kept here")
        return refused

    async def differing_fields(
        self, connection: Connection, known: Known[Valid]
    ) -> list[str] | None:
        """Return the fields in which a request differs from its key's result; None if gone."""
        raise TypeError(f"{type(self).__name__} keeps its requests: {connection}, {known}")


class Pipeline(Generic[Item, Valid, Made]):
    """Accepts items by a strategy: one outcome for each, in order."""

    def __init__(self, database: Database, strategy: Strategy[Item, Valid, Made]) -> None:
        self._database = database
        self._strategy = strategy

    async def accept(self, items: Sequence[Item]) -> list[Made | Refused]:
        """Accept items in one commit."""
        return await self.commit(await self._strategy.validate(items))

    async def commit(self, items: Sequence[Valid | Refusal]) -> list[Made | Refused]:
        """Accept items that were validated, in one commit."""
        locks = self._strategy.locks(items)
        for _ in range(MAX_RACES + 1):
            try:
                run = self._lock_and_write if locks else self._look_then_write
                outcomes, known = await run(items)
            except KeyTakenError:
                continue
            except StaleAccountError:
                if locks:
                    raise
                locks = True
                continue
            if known:
                await self._answer_after_commit(outcomes, known)
            return outcomes
        raise key_busy()

    async def accept_within(
        self,
        connection: Connection,
        items: Sequence[Valid | Refusal],
        group: AcceptGroup[Valid, Made] | None = None,
    ) -> list[Made | Refused]:
        """Accept items in the caller's transaction; `group` holds what was already read."""
        if group is None:
            group = await self._strategy.look(connection, _valid(items), locked=False)
        outcomes, known = _decide(group, items)
        await group.write(connection)
        await self._answer_known(connection, outcomes, known)
        return outcomes

    async def _look_then_write(
        self, items: Sequence[Valid | Refusal]
    ) -> tuple[list[Made | Refused], list[Known[Valid]]]:
        """Read and write in two round trips, without holding locks in between."""
        valid = [item for item in items if not isinstance(item, Refusal)]
        look = partial(self._strategy.look, items=valid, locked=False)
        async with self._database.near.after(look, "accept.statement") as begun:
            group: AcceptGroup[Valid, Made] = begun.found
            decided = _decide(group, items)
            if group.one_statement:
                await group.write(begun.connection)
        if not group.one_statement:
            async with self._database.near.write("accept.transaction") as connection:
                await group.write(connection)
        return decided

    async def _lock_and_write(
        self, items: Sequence[Valid | Refusal]
    ) -> tuple[list[Made | Refused], list[Known[Valid]]]:
        """Lock first, then decide and write: something changed between a read and a write."""
        async with self._database.near.write("accept.locked") as connection:
            group = await self._strategy.look(connection, _valid(items), locked=True)
            decided = _decide(group, items)
            await group.write(connection)
        return decided

    async def _answer_known(
        self,
        connection: Connection,
        outcomes: list[Made | Refused],
        known: Sequence[Known[Valid]],
    ) -> None:
        """Answer the items whose keys were used before, or refuse them and name what differs."""
        again: list[Known[Valid]] = []
        for each in known:
            # Requests accepted through SQL have another fingerprint: compare the fields.
            differs: list[str] | None = []
            if each.row.fingerprint != each.request.fingerprint:
                differs = await self._differing(connection, each)
            if differs != []:
                outcomes[each.number] = Refused(reused(differs or []))
            elif each.row.kept is None:
                again.append(each)
            else:
                outcomes[each.number] = self._strategy.stored_answer(each)
        if again:
            replayed = await self._strategy.replay(connection, again)
            for each, made in zip(again, replayed, strict=True):
                outcomes[each.number] = made

    async def _answer_after_commit(
        self, outcomes: list[Made | Refused], known: Sequence[Known[Valid]]
    ) -> None:
        """Answer the items whose keys were used before; an error affects only them.

        The others are committed: retrying the whole group would create items without a key twice.
        """
        try:
            async with self._database.connection() as connection:
                await self._answer_known(connection, outcomes, known)
            await self._database.confirm()
        except TransientError as error:
            log.warning("answer.not_read", items=len(known), error=repr(error))
            for each in known:
                outcomes[each.number] = Refused(_UNREAD)
        except Exception:
            log.exception("answer.not_read", items=len(known))
            if len(known) == 1:
                outcomes[known[0].number] = Refused(_BROKEN)
                return
            for each in known:
                await self._answer_after_commit(outcomes, [each])

    async def _differing(self, connection: Connection, known: Known[Valid]) -> list[str] | None:
        if known.row.kept is not None:
            differs = kept_differences(known.row, known.request)
            return differs if differs or known.request.accounts is None else None
        return await self._strategy.differing_fields(connection, known)


def _valid(items: Sequence[Valid | Refusal]) -> list[Valid]:
    return [item for item in items if not isinstance(item, Refusal)]


_UNREAD: Final = Refusal(
    Code.OUTCOME_UNKNOWN,
    "The first answer to this key cannot be read at the moment.",
    extra={"retry_after_seconds": 1},
)
_BROKEN: Final = Refusal(Code.INTERNAL, "The first answer to this key cannot be read.")
_PENDING: Final = Refused(key_busy().refusal)
"""Stands for an item whose key is known until it is answered."""


def _decide(
    group: AcceptGroup[Valid, Made], items: Sequence[Valid | Refusal]
) -> tuple[list[Made | Refused], list[Known[Valid]]]:
    """Decide on items in order; a key may occur twice, and each item sees the ones before it."""
    group.begin(items)
    outcomes: list[Made | Refused] = []
    known: list[Known[Valid]] = []
    for number, item in enumerate(items):
        if isinstance(item, Refusal):
            outcomes.append(Refused(item))
            continue
        request = item.keyed
        if request is not None and request.key in group.known:
            known.append(Known(number, item, request, group.known[request.key]))
            outcomes.append(_PENDING)
            continue
        outcomes.append(_decide_one(group, number, item))
    return outcomes, known


def _decide_one(group: AcceptGroup[Valid, Made], number: int, item: Valid) -> Made | Refused:
    refusal = group.limit(item)
    if refusal is not None:
        return Refused(refusal)
    made = group.decide(number, item)
    if item.keyed is not None and (group.remembers_refusals or not isinstance(made, Refusal)):
        row = (
            kept_under(item.keyed, made, group.now)
            if isinstance(made, Refusal)
            else group.row(item.keyed, made)
        )
        group.keys.append(row)
        group.known[row.key] = row
    return Refused(made) if isinstance(made, Refusal) else made
