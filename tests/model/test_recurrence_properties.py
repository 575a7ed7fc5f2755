"""Leaps against looking at everything: any rule, on a window small enough to be looked through."""
# ruff: noqa: DTZ001 - rules speak of the wall clock

from calendar import monthrange
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice, product

from hypothesis import given, settings
from hypothesis import strategies as st

from postdate.recurrence import rrule
from postdate.recurrence.product import Product

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
SPAN = {
    "YEARLY": 800, "MONTHLY": 400, "WEEKLY": 120, "DAILY": 60, "HOURLY": 6, "MINUTELY": 2,
}  # fmt: skip
Parts = dict[str, list[int]]


def some(low: int, high: int, most: int = 4) -> st.SearchStrategy[list[int]]:
    numbers = st.integers(low, high).filter(bool) if low < 0 else st.integers(low, high)
    return st.lists(numbers, max_size=most, unique=True).map(sorted)


@st.composite
def rules(draw: st.DrawFn) -> tuple[str, int, Parts]:
    freq = draw(st.sampled_from(list(SPAN)))
    parts: Parts = {
        "BYMONTH": draw(some(1, 12)),
        "BYMONTHDAY": draw(some(-31, 31)) if freq != "WEEKLY" else [],
        "BYDAY": draw(some(0, 6)),
        "BYHOUR": draw(some(0, 23)),
        "BYMINUTE": draw(some(0, 59)),
    }
    if any(parts.values()):
        parts["BYSETPOS"] = draw(some(-4, 4, 2))
    return freq, draw(st.integers(1, 9)), parts


def text_of(freq: str, interval: int, parts: Parts) -> str:
    by = {name: ",".join(map(str, values)) for name, values in parts.items() if values}
    if parts["BYDAY"]:
        by["BYDAY"] = ",".join(DAYS[day] for day in parts["BYDAY"])
    return ";".join([f"FREQ={freq}", f"INTERVAL={interval}", *map("=".join, by.items())])


def number(freq: str, at: datetime) -> int:
    """Number the period of a time."""
    days = at.toordinal()
    return {
        "YEARLY": at.year,
        "MONTHLY": at.year * 12 + at.month,
        "WEEKLY": (days - 1) // 7,
        "DAILY": days,
        "HOURLY": days * 24 + at.hour,
        "MINUTELY": (days * 24 + at.hour) * 60 + at.minute,
    }[freq]


def is_chosen(at: datetime, parts: Parts) -> bool:
    back = at.day - monthrange(at.year, at.month)[1] - 1
    return (
        (not parts["BYMONTH"] or at.month in parts["BYMONTH"])
        and (not parts["BYMONTHDAY"] or bool({at.day, back} & set(parts["BYMONTHDAY"])))
        and (not parts["BYDAY"] or at.weekday() in parts["BYDAY"])
    )


def filled(freq: str, parts: Parts, start: datetime) -> Parts:
    """Take from the start what the rule leaves open."""
    parts = dict(parts)
    if not parts["BYMONTHDAY"] and not parts["BYDAY"]:
        if freq == "WEEKLY":
            parts["BYDAY"] = [start.weekday()]
        elif freq in {"YEARLY", "MONTHLY"}:
            parts["BYMONTHDAY"] = [start.day]
            if freq == "YEARLY":
                parts["BYMONTH"] = parts["BYMONTH"] or [start.month]
    open_hours = [start.hour] if freq not in {"HOURLY", "MINUTELY"} else list(range(24))
    parts["BYHOUR"] = parts["BYHOUR"] or open_hours
    open_minutes = [start.minute] if freq != "MINUTELY" else list(range(60))
    parts["BYMINUTE"] = parts["BYMINUTE"] or open_minutes
    return parts


def looked_through(
    freq: str, interval: int, parts: Parts, start: datetime, end: datetime
) -> Iterator[datetime]:
    """Look at every time of every period from the one of the start on."""
    parts = filled(freq, parts, start)
    first = datetime(start.year, 1, 1) - timedelta(days=6)
    days = (first + timedelta(days=day) for day in range((end - first).days + 400))
    times = (
        day.replace(hour=hour, minute=minute)
        for day, hour, minute in product(days, parts["BYHOUR"], parts["BYMINUTE"])
        if is_chosen(day, parts)
    )
    for period, group in groupby(times, key=lambda at: number(freq, at)):
        found = list(group)
        if (period - number(freq, start)) % interval:
            continue
        if positions := parts.get("BYSETPOS"):
            size = len(found)
            wanted = {at - 1 if at > 0 else size + at for at in positions}
            found = [found[at] for at in sorted(wanted) if 0 <= at < size]
        yield from (at for at in found if start <= at < end)


moments = st.datetimes(datetime(2020, 1, 1), datetime(2032, 12, 31)).map(
    lambda at: at.replace(second=0, microsecond=0)
)


@settings(deadline=None, max_examples=25)
@given(rule=rules(), start=moments, into=st.floats(0, 1), count=st.integers(1, 12))
def test_leaping_finds_what_looking_at_everything_finds(
    rule: tuple[str, int, Parts], start: datetime, into: float, count: int
) -> None:
    freq, interval, parts = rule
    span = timedelta(days=SPAN[freq])
    end, text = start + span, text_of(freq, interval, parts)
    expected = list(looked_through(freq, interval, parts, start, end))
    found = rrule.matches(text, start, start)
    assert list(islice(found, len(expected))) == expected
    assert next(found, end) >= end

    # From any time on it is the rest of the same.
    later = start + span * into
    rest = [at for at in expected if at >= later]
    assert list(islice(rrule.matches(text, start, later), len(rest))) == rest

    # COUNT is the beginning of the same.
    counted = list(islice(rrule.matches(f"{text};COUNT={count}", start, start), count + 1))
    assert counted[: len(expected)] == expected[:count]
    assert len(counted) <= count


@settings(deadline=None)
@given(
    values=st.lists(
        st.lists(st.integers(0, 9), min_size=1, unique=True).map(sorted), min_size=1, max_size=3
    ),
    number=st.integers(0, 1100),
)
def test_a_product_knows_its_numbers_without_listing_them(
    values: list[list[int]], number: int
) -> None:
    levels = [(tuple(each), 10**place) for place, each in enumerate(reversed(values))][::-1]
    made = Product(*levels)
    listed = sorted(int("".join(map(str, digits)) or "0") for digits in product(*values))
    assert [made[at] for at in range(len(made))] == listed
    assert made.rank(number) == sum(each < number for each in listed)
    assert made.first_not_less(number) == next((each for each in listed if each >= number), None)
    assert [at for at in range(1100) if made.bits() >> at & 1] == listed
