"""Occurrences against a slow oracle, in zones where clocks do odd things, under every policy."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from zlib import crc32

import pytest

from postdate.recurrence.calendar import Calendar
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Dst, Gap, Occurrence, Repeated
from support.schedule_case import Drawn, draw_rule
from support.schedule_oracle import DAY, Walk, changes, expected, load, nominal

# Zone: instants worth a look beside the changes of the years 2024 to 2027.
ZONES: dict[str, list[datetime]] = {
    name: [datetime(*each, tzinfo=UTC) for each in dates]
    for name, dates in {
        "Africa/Cairo": [(2014, 5, 15), (2023, 4, 27)],
        "Africa/Casablanca": [(2018, 10, 28)],
        "Africa/El_Aaiun": [(2025, 2, 23)],
        "Africa/Johannesburg": [(1943, 9, 19)],
        "Africa/Juba": [(2021, 1, 31)],
        "Africa/Khartoum": [(2017, 10, 31)],
        "Africa/Sao_Tome": [(2018, 1, 1)],
        "Africa/Windhoek": [(2017, 9, 3)],
        "America/Anchorage": [],
        "America/Asuncion": [(2024, 10, 6)],
        "America/Bogota": [(1993, 2, 6)],
        "America/Caracas": [(2007, 12, 9), (2016, 5, 1)],
        "America/Chicago": [],
        "America/Denver": [],
        "America/Halifax": [],
        "America/Havana": [],
        "America/Los_Angeles": [],
        "America/Metlakatla": [(2015, 11, 1)],
        "America/Mexico_City": [(2022, 10, 30)],
        "America/Miquelon": [],
        "America/New_York": [(1999, 10, 31)],
        "America/Nuuk": [(2023, 3, 26)],
        "America/Phoenix": [(2026, 1, 1)],
        "America/Port-au-Prince": [],
        "America/Santiago": [],
        "America/Sao_Paulo": [(2018, 11, 4), (2018, 2, 18)],
        "America/Scoresbysund": [(2024, 3, 31)],
        "America/St_Johns": [(2006, 10, 29)],
        "Antarctica/Casey": [(2023, 3, 9)],
        "Antarctica/Macquarie": [],
        "Antarctica/Troll": [],
        "Antarctica/Vostok": [(2023, 12, 18)],
        "Asia/Almaty": [(2024, 2, 29)],
        "Asia/Amman": [(2022, 10, 28)],
        "Asia/Baghdad": [(2007, 10, 1)],
        "Asia/Beirut": [(2023, 3, 26)],
        "Asia/Damascus": [(2022, 10, 28)],
        "Asia/Dhaka": [(2009, 6, 19)],
        "Asia/Famagusta": [(2017, 10, 29)],
        "Asia/Gaza": [],
        "Asia/Hovd": [(2016, 9, 23)],
        "Asia/Jerusalem": [],
        "Asia/Kabul": [(2026, 1, 1)],
        "Asia/Kathmandu": [(1986, 1, 1)],
        "Asia/Kolkata": [(2026, 6, 1)],
        "Asia/Nicosia": [],
        "Asia/Pyongyang": [(2015, 8, 14), (2018, 5, 4)],
        "Asia/Tehran": [(2022, 9, 21)],
        "Asia/Tokyo": [(1950, 5, 7)],
        "Asia/Yerevan": [(2011, 10, 30)],
        "Atlantic/Azores": [],
        "Atlantic/Stanley": [(2010, 9, 5)],
        "Australia/Adelaide": [],
        "Australia/Eucla": [(2009, 3, 29)],
        "Australia/Lord_Howe": [(1985, 10, 27)],
        "Australia/Sydney": [],
        "Europe/Berlin": [(1980, 4, 6)],
        "Europe/Chisinau": [],
        "Europe/Dublin": [],
        "Europe/Istanbul": [(2015, 11, 8), (2016, 3, 27)],
        "Europe/Lisbon": [(1992, 9, 27)],
        "Europe/London": [],
        "Europe/Moscow": [(2011, 3, 27), (2014, 10, 26)],
        "Europe/Samara": [(2010, 3, 28)],
        "Europe/Simferopol": [(2014, 3, 30)],
        "Europe/Volgograd": [(2018, 10, 28), (2020, 12, 27)],
        "Pacific/Apia": [(2011, 12, 30), (2012, 4, 1)],
        "Pacific/Auckland": [],
        "Pacific/Bougainville": [(2014, 12, 28)],
        "Pacific/Chatham": [],
        "Pacific/Easter": [],
        "Pacific/Fiji": [(2021, 1, 17)],
        "Pacific/Kiritimati": [(1994, 12, 31)],
        "Pacific/Kwajalein": [(1993, 8, 21)],
        "Pacific/Norfolk": [(2019, 10, 6)],
        "Pacific/Tongatapu": [(2017, 1, 15)],
        "UTC": [(2026, 3, 1)],
    }.items()
}
POLICIES = list(product(Gap, Repeated))
RULES_A_WINDOW = 3
WINDOWS_MOST = 4


def _ours(drawn: Drawn, gap: Gap, repeated: Repeated, walk: Walk) -> Iterator[Occurrence]:
    days = Calendar("a", drawn.closed.holidays) if drawn.closed else None
    plan = RecurrencePlan(drawn.rule, Dst(gap=gap, repeated=repeated), days)
    begin, end = walk.begin + 5 * DAY, walk.end - 5 * DAY
    for each in occurrences(plan, begin - timedelta(seconds=1)):
        if each.scheduled_for >= end:
            return
        yield each


def _windows(zone: str) -> Iterator[Walk]:
    info = load(zone)
    for at in [*ZONES[zone], *changes(info, 2024, 2026)][:WINDOWS_MOST]:
        yield Walk(info, at - 6 * DAY, at + 7 * DAY)


@pytest.mark.parametrize("rules", [1, pytest.param(RULES_A_WINDOW, marks=pytest.mark.soak)])
@pytest.mark.parametrize("zone", ZONES)
def test_occurrences_agree_with_the_oracle(zone: str, rules: int) -> None:
    draw = random.Random(crc32(zone.encode()))
    for walk in _windows(zone):
        begin, end = walk.begin + 5 * DAY, walk.end - 5 * DAY
        for _ in range(rules):
            drawn = draw_rule(draw, zone, (walk.begin + 6 * DAY).date())
            shown = [walk.begin.replace(tzinfo=None) + DAY, walk.end.replace(tzinfo=None) - DAY]
            wanted = list(nominal(shown[0], shown[1], drawn.asks))
            for gap, repeated in POLICIES:
                runs, left_out = expected(walk, wanted, gap, repeated, drawn.closed)
                ours = list(_ours(drawn, gap, repeated, walk))
                about = (zone, drawn.rule, drawn.closed, gap, repeated)
                fired = [each.scheduled_for for each in ours if each.skip is None]
                assert fired == sorted(at for at in runs if begin <= at < end), about
                skipped = {each.nominal_local for each in ours if each.skip is not None}
                assert skipped <= left_out, about
                inside = {at for at in left_out if _within(at, begin, end)}
                assert inside <= skipped, about


def _within(local: datetime, begin: datetime, end: datetime) -> bool:
    """Leave a day at both ends, where the wall clock's day and UTC's differ."""
    return begin + DAY < local.replace(tzinfo=UTC) < end - DAY


def test_there_are_enough_cases() -> None:
    windows = sum(
        min(WINDOWS_MOST, len(more) + len(changes(load(zone), 2024, 2026)))
        for zone, more in ZONES.items()
    )
    assert len(ZONES) >= 60
    assert windows * RULES_A_WINDOW * len(POLICIES) >= 5000
