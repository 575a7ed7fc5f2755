"""Cron expressions on a wall clock: five fields, six with seconds, and the names with an @."""

from collections.abc import Iterator
from copy import copy
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from postdate.model.errors import Code, refuse

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CHARACTERS_MOST: Final = 200
_SECOND: Final = timedelta(seconds=1)


@lru_cache(maxsize=16_384)
def _parsed(text: str) -> CronSim:
    expression = NICKNAMES.get(text.strip().lower(), text)
    if len(text) > _CHARACTERS_MOST:
        raise refuse(Code.INVALID_FIELD, f"More than {_CHARACTERS_MOST} characters.", "cron")
    try:
        return CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        detail = f"{text!r} is not a cron expression: {str(error) or 'a field is wrong'}."
        raise refuse(Code.INVALID_FIELD, detail, "cron") from error


def validate(text: str) -> None:
    """Refuse what is not a cron expression, saying which part is wrong."""
    _parsed(text)


def every_hour(text: str) -> bool:
    """Say whether the expression does not fix the hour, so that it means an interval."""
    return _parsed(text).parts[2].startswith("*")


def matches(text: str, start: datetime) -> Iterator[datetime]:
    """Give the wall-clock times from `start` on; ends when none comes for fifty years."""
    walk = copy(_parsed(text))
    walk.dt = start.replace(microsecond=0) - (_SECOND if not start.microsecond else timedelta(0))
    try:
        yield from walk
    except OverflowError:
        return


def explain(text: str) -> str:
    """Say an expression in words."""
    return str(_parsed(text).explain())
