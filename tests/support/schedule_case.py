"""Rules of wall clocks drawn with a seed, with the question that the slow oracle asks for them."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import NamedTuple

from postdate.recurrence.calendar import Roll
from postdate.recurrence.rule import Rule
from support.schedule_oracle import DAY, Closed


class Drawn(NamedTuple):
    """A rule in our words, and as a question about a minute on the wall clock."""

    rule: Rule
    asks: Callable[[datetime], bool]
    closed: Closed | None


def draw_rule(draw: random.Random, zone: str, near: date) -> Drawn:
    """Draw a rule of cron or rrule, often in the hours of clock changes; close some days."""
    minutes = sorted(draw.sample(range(60), draw.choice([1, 1, 2, 4])))
    if draw.random() < 0.4:
        minutes = list(range(0, 60, draw.choice([15, 30])))
    hours = sorted(draw.sample(range(24), 3) + draw.sample(range(4), 2))
    if draw.random() < 0.25:
        hours = list(range(24))
    weekdays = sorted(draw.sample(range(7), draw.choice([4, 7, 7])))
    closed = None
    if draw.random() < 0.35:
        holidays = frozenset(near + draw.randrange(-4, 5) * DAY for _ in range(2))
        closed = Closed(holidays, draw.choice(list(Roll)).value)
        minutes, hours = minutes[:2], sorted(set(hours))[:4]

    def asks(at: datetime) -> bool:
        return at.minute in minutes and at.hour in hours and at.weekday() in weekdays

    form = _cron(minutes, hours, weekdays) if draw.random() < 0.7 else None
    rule = Rule(
        cron=form,
        rrule=None if form else _rrule(minutes, hours, weekdays),
        timezone=zone,
        start_at=None if form else datetime(1940, 1, 1, tzinfo=UTC),
        calendar="a" if closed else None,
        roll=Roll(closed.roll) if closed else Roll.NONE,
    )
    return Drawn(rule, asks, closed)


def _cron(minutes: list[int], hours: list[int], weekdays: list[int]) -> str:
    fields = [minutes, sorted(set(hours)), [(day + 1) % 7 for day in weekdays]]
    texts = [",".join(map(str, each)) for each in fields]
    hour = "*" if len(fields[1]) == 24 else texts[1]
    return f"{texts[0]} {hour} * * {'*' if len(weekdays) == 7 else texts[2]}"


def _rrule(minutes: list[int], hours: list[int], weekdays: list[int]) -> str:
    days = ",".join(("MO", "TU", "WE", "TH", "FR", "SA", "SU")[day] for day in weekdays)
    times = (
        f"BYHOUR={','.join(map(str, sorted(set(hours))))};BYMINUTE={','.join(map(str, minutes))}"
    )
    return f"FREQ=WEEKLY;BYDAY={days};{times};BYSECOND=0"
