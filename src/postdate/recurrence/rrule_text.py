"""The text of a recurrence rule (RFC 5545): its parts, their bounds, what may stand with what."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from postdate.words.error import Code, RefusedError, refuse

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
MAX_CHARACTERS: Final = 1000
MAX_INTERVAL: Final = 100_000
_MAX_WEEKS: Final = 53
_SIGNED: Final = re.compile(r"[+-]?[0-9]{1,6}")
_UNSIGNED: Final = re.compile(r"[0-9]{1,6}")
_ORDINAL_DAY: Final = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL: Final = re.compile(r"[0-9]{8}(T[0-9]{6}Z?)?")
_LAST_SECOND: Final = 59
_INSTEAD: Final = {
    "DTSTART": "give it as start_at",
    "EXDATE": "give the dates as exclude_dates",
    "EXRULE": "it was taken out of RFC 5545; use exclude_dates or a calendar",
    "RDATE": "create a job or a second schedule for the extra dates",
    "RSCALE": "only the Gregorian calendar is known",
    "SKIP": "a date that does not exist is left out; -1 counts from the end of the month",
}
"""Other properties that calendars export beside a rule, and what to do with them."""


class Freq(StrEnum):
    """The period of a rule."""

    YEARLY = "YEARLY"
    MONTHLY = "MONTHLY"
    WEEKLY = "WEEKLY"
    DAILY = "DAILY"
    HOURLY = "HOURLY"
    MINUTELY = "MINUTELY"
    SECONDLY = "SECONDLY"


class Day(NamedTuple):
    """A weekday (0 is Monday), every one of the period or (`nth`) only one of them."""

    nth: int
    weekday: int


class RRule(msgspec.Struct, frozen=True):
    """A rule as written; an empty tuple means that the part is not there.

    UNTIL is either a time on the wall clock (`until`) or an instant (`until_utc`).
    """

    freq: Freq
    interval: int = 1
    count: int | None = None
    until: datetime | None = None
    until_utc: datetime | None = None
    wkst: int = 0
    bymonth: tuple[int, ...] = ()
    bymonthday: tuple[int, ...] = ()
    byyearday: tuple[int, ...] = ()
    byweekno: tuple[int, ...] = ()
    byday: tuple[Day, ...] = ()
    byhour: tuple[int, ...] = ()
    byminute: tuple[int, ...] = ()
    bysecond: tuple[int, ...] = ()
    bysetpos: tuple[int, ...] = ()


def refuse_part(detail: str) -> RefusedError:
    """Refuse a rule, saying which part is wrong."""
    return refuse(Code.INVALID_FIELD, f"{detail}.", "rrule")


def _numbers(minimum: int, maximum: int) -> Callable[[str, str], tuple[int, ...]]:
    def read(name: str, text: str) -> tuple[int, ...]:
        found = {_number(name, each, minimum, maximum) for each in text.split(",")}
        if minimum < 0 and 0 in found:
            raise refuse_part(f"{name} counts from 1 or from -1")
        return tuple(sorted(found))

    return read


def _number(name: str, text: str, minimum: int, maximum: int) -> int:
    pattern = _SIGNED if minimum < 0 else _UNSIGNED
    if not pattern.fullmatch(text) or not minimum <= int(text) <= maximum:
        raise refuse_part(f"{name}={text[:20]} is not a number from {minimum} to {maximum}")
    return int(text)


def _days(name: str, text: str) -> tuple[Day, ...]:
    days = set()
    for each in text.split(","):
        found = _ORDINAL_DAY.fullmatch(each)
        nth = int(found[1] or 0) if found else 0
        if found is None or abs(nth) > _MAX_WEEKS or (found[1] and not nth):
            raise refuse_part(f"{name}={each[:20]} is not a weekday such as MO or -1FR")
        days.add(Day(nth, WEEKDAYS.index(found[2])))
    return tuple(sorted(days))


def _freq(name: str, text: str) -> Freq:
    if text not in list(Freq):
        raise refuse_part(f"{name}={text[:20]} is not one of {', '.join(Freq)}")
    return Freq(text)


def _weekday(name: str, text: str) -> int:
    if text not in WEEKDAYS:
        raise refuse_part(f"{name}={text[:20]} is not one of {', '.join(WEEKDAYS)}")
    return WEEKDAYS.index(text)


def _seconds(name: str, text: str) -> tuple[int, ...]:
    """Read the second 60 as 59: clocks without leap seconds shall, says RFC 5545 (3.3.12)."""
    found = _numbers(0, 60)(name, text)
    return tuple(sorted({min(second, _LAST_SECOND) for second in found}))


def _until(name: str, text: str) -> datetime:
    if not _UNTIL.fullmatch(text):
        raise refuse_part(f"{name}={text[:20]} is not a date such as 20301231 or 20301231T235959Z")
    shape = "%Y%m%dT%H%M%S" if "T" in text else "%Y%m%d"
    try:
        until = datetime.strptime(text.rstrip("Z"), shape).replace(tzinfo=UTC)
    except ValueError:
        raise refuse_part(f"{name}={text} is not a date that exists") from None
    if "T" not in text:
        until = until.replace(hour=23, minute=59, second=59)  # the day belongs to the rule
    return until if text.endswith("Z") else until.replace(tzinfo=None)


_READ: Final[dict[str, Callable[[str, str], Any]]] = {
    "FREQ": _freq,
    "INTERVAL": lambda name, text: _number(name, text, 1, MAX_INTERVAL),
    "COUNT": lambda name, text: _number(name, text, 1, 999_999),
    "UNTIL": _until,
    "WKST": _weekday,
    "BYMONTH": _numbers(1, 12),
    "BYMONTHDAY": _numbers(-31, 31),
    "BYYEARDAY": _numbers(-366, 366),
    "BYWEEKNO": _numbers(-53, 53),
    "BYDAY": _days,
    "BYHOUR": _numbers(0, 23),
    "BYMINUTE": _numbers(0, 59),
    "BYSECOND": _seconds,
    "BYSETPOS": _numbers(-366, 366),
}


def _only_rule(text: str) -> str:
    """Refuse a text of several properties, naming the first that is not the rule."""
    lines = text.splitlines()
    for line in lines:
        name = re.split("[:;=]", line, maxsplit=1)[0]
        if name in _INSTEAD:
            raise _unknown(name)
    if len(lines) > 1:
        raise refuse_part("a schedule has one rule; create a second schedule for the other")
    return text.removeprefix("RRULE:")


def _unknown(name: str) -> RefusedError:
    if name in _INSTEAD:
        return refuse_part(f"{name} is not supported: {_INSTEAD[name]}")
    return refuse_part(f"{name[:20]!r} is not one of {', '.join(_READ)}")


@lru_cache(maxsize=16_384)
def parse(text: str) -> RRule:
    """Read a rule; DTSTART is the schedule's `start_at`, so only the RRULE itself is given."""
    if len(text) > MAX_CHARACTERS:
        raise refuse_part(f"more than {MAX_CHARACTERS} characters")
    if not text.isascii():
        raise refuse_part("only ASCII letters and digits make a rule")
    parts: dict[str, Any] = {}
    rule = _only_rule(text.strip().upper())
    for part in rule.removesuffix(";").split(";"):  # some calendars end a rule with a semicolon
        name, _, value = part.partition("=")
        if name not in _READ:
            raise _unknown(name)
        if name.lower() in parts:
            raise refuse_part(f"{name} is given twice")
        parts[name.lower()] = _READ[name](name, value)
    if "freq" not in parts:
        raise refuse_part("FREQ is missing")
    if "until" in parts and parts["until"].tzinfo is not None:
        parts["until_utc"] = parts.pop("until")
    return _check_combination(RRule(**parts))


def _check_combination(rule: RRule) -> RRule:
    """Refuse parts that RFC 5545 does not allow together."""
    if rule.count is not None and (rule.until or rule.until_utc) is not None:
        raise refuse_part("COUNT and UNTIL exclude each other")
    if rule.byweekno and rule.freq is not Freq.YEARLY:
        raise refuse_part("BYWEEKNO needs FREQ=YEARLY")
    if rule.byyearday and rule.freq in {Freq.DAILY, Freq.WEEKLY, Freq.MONTHLY}:
        raise refuse_part(f"BYYEARDAY cannot be combined with FREQ={rule.freq}")
    if rule.bymonthday and rule.freq is Freq.WEEKLY:
        raise refuse_part("BYMONTHDAY cannot be combined with FREQ=WEEKLY")
    ordinal = any(day.nth for day in rule.byday)
    if ordinal and (rule.freq not in {Freq.YEARLY, Freq.MONTHLY} or rule.byweekno):
        raise refuse_part("BYDAY with a number needs FREQ=MONTHLY or YEARLY without BYWEEKNO")
    if rule.bysetpos and not _by_parts(rule):
        raise refuse_part("BYSETPOS needs another BY part")
    return rule


def _by_parts(rule: RRule) -> bool:
    return any((
        rule.bymonth, rule.bymonthday, rule.byyearday, rule.byweekno, rule.byday,
        rule.byhour, rule.byminute, rule.bysecond,
    ))  # fmt: skip
