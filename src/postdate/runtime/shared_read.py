"""Shared reads: the simultaneous reads of several loops become one statement.

An idle process polls a lot and finds nothing: due timers, live nodes, settings. Its loops wake on
common ticks (`runtime.loop`), and what they read then is sent together. A busy loop reads alone,
and does not wait for others.

One question may wait for a lock on its table. It must not hold up the others:
questions that got no answer together within `SHARED_SECONDS` are asked one by one, and each stays
alone until it is answered in time. Citus plans no such combination: on shards each asks alone.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from postdate.core.log import Log
from postdate.database.connection import combined
from postdate.database.connection.combined import Question
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    DatabaseError,
    NoAnswerError,
    StatementTimedOutError,
    UnavailableError,
)
from postdate.runtime.coalescer import Coalescer

log = Log()

_SLOW: Final = (NoAnswerError, StatementTimedOutError)

GATHER_SECONDS: Final = 0.003
"""How long the first to wake waits for the others."""

IDLE_SECONDS: Final = 0.3
"""A process without a read for this long counts as idle, so that reads need not be fast."""

SHARED_SECONDS: Final = 0.5
"""How long questions wait for each other's answers."""

MAX_QUESTIONS: Final = 16
"""The most questions of one statement: PostgreSQL keeps a plan for each combination of them."""


class SharedReads:
    """Reads for the loops of one process, in place of a connection."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._asked_at = 0.0
        self._slow: set[str] = set()
        """The texts of questions that are asked alone."""
        self._reads: Coalescer[Question, Sequence[Any] | None] = Coalescer(
            self._read, max_group=MAX_QUESTIONS, gather_seconds=self._gather_seconds
        )

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Sequence[Any]:
        """Read rows, together with other reads of the same moment."""
        question = Question(query, args)
        async with asyncio.timeout(timeout):
            alone = self.database.sharded or query in self._slow
            found = None if alone else await self._reads.submit(question)
            return await self._read_alone(question) if found is None else found

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first row, or None."""
        rows = await self.fetch(query, *args, timeout=timeout)
        return rows[0] if rows else None

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first value of the first row, or None."""
        row = await self.fetchrow(query, *args, timeout=timeout)
        return None if row is None else row[0]

    def _gather_seconds(self) -> float:
        idle = time.monotonic() - self._asked_at > IDLE_SECONDS
        return GATHER_SECONDS if idle else 0.0

    async def _read_alone(self, question: Question) -> Sequence[Any]:
        began = time.monotonic()
        async with self.database.connection() as connection:
            [found] = await combined.ask(connection, [question])
        if time.monotonic() - began < SHARED_SECONDS:
            self._slow.discard(question.text)
        return found

    async def _read(self, questions: Sequence[Question]) -> Sequence[Sequence[Any] | None]:
        """Send questions together; return None for each if one of them fails or is slow."""
        self._asked_at = time.monotonic()
        async with self.database.connection() as connection:
            try:
                return await _ask_in_order(connection, questions)
            except DatabaseError as error:
                if isinstance(error, UnavailableError) and not isinstance(error, _SLOW):
                    raise
                log.debug("shared_read.failed", questions=len(questions), error=repr(error))
        self._slow |= {question.text for question in questions}
        return [None] * len(questions)


async def _ask_in_order(
    connection: Connection, questions: Sequence[Question]
) -> list[Sequence[Any]]:
    """Send questions in a fixed order, so that a combination is always the same statement."""
    order = sorted(range(len(questions)), key=lambda number: questions[number].text)
    ordered = [questions[number] for number in order]
    found = await combined.ask(connection, ordered, SHARED_SECONDS)
    answers = dict(zip(order, found, strict=True))
    return [answers[number] for number in range(len(questions))]
