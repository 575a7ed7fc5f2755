"""Combine several reads into one statement, so that loops share one round trip."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from postdate.database.connection.pool import Connection

_PARAMETER: Final = re.compile(r"\$(\d+)")


class Question(NamedTuple):
    """A query that only reads, and its arguments."""

    text: str
    arguments: tuple[Any, ...]


async def ask(
    connection: Connection, questions: Sequence[Question], seconds: float | None = None
) -> list[Sequence[Any]]:
    """Return the rows of each question; a single question is sent unchanged."""
    if len(questions) == 1:
        [only] = questions
        return [await connection.fetch(only.text, *only.arguments, timeout=seconds)]
    arguments = [each for question in questions for each in question.arguments]
    row = await connection.fetchrow(_combine(questions), *arguments, timeout=seconds)
    return list(row or ())


def _combine(questions: Sequence[Question]) -> str:
    """Rewrite each query as an array of its rows, with renumbered parameters."""
    parts, passed = [], 0
    for number, question in enumerate(questions):
        text = _PARAMETER.sub(partial(_count_on, passed), question.text)
        rows = f"SELECT ROW(q.*) FROM (\n{text}\n) AS q"  # noqa: S608 - our own named queries
        parts.append(f"ARRAY({rows}) AS q{number}")
        passed += len(question.arguments)
    return "SELECT " + ",\n".join(parts)


def _count_on(passed: int, parameter: re.Match[str]) -> str:
    return f"${int(parameter[1]) + passed}"
