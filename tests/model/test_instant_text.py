"""Times as people write them become one instant, or are refused."""

import time
from datetime import UTC, datetime

import pytest

from postdate.cli.instant import read_instant
from postdate.cli.output import UsageError

NOW = datetime(2031, 1, 1, 12, 0, tzinfo=UTC)
"""A Wednesday; 13:00 in Berlin."""


@pytest.mark.parametrize(
    ("text", "zone", "instant"),
    [
        ("tomorrow 9:00", "Europe/Berlin", "2031-01-02T08:00:00+00:00"),
        ("today 17:30", "Europe/Berlin", "2031-01-01T16:30:00+00:00"),
        ("14:00", "Europe/Berlin", "2031-01-01T13:00:00+00:00"),
        ("13:00", "Europe/Berlin", "2031-01-02T12:00:00+00:00"),
        ("Friday 9:00:30", "UTC", "2031-01-03T09:00:30+00:00"),
        ("wednesday 11:00", "UTC", "2031-01-08T11:00:00+00:00"),
        ("wednesday 13:00", "UTC", "2031-01-01T13:00:00+00:00"),
        ("2031-07-01 09:00", "Europe/Berlin", "2031-07-01T07:00:00+00:00"),
        ("2031-07-01T09:00", "Asia/Tokyo", "2031-07-01T00:00:00+00:00"),
        ("2031-07-01T09:00:00+02:00", "Asia/Tokyo", "2031-07-01T09:00:00+02:00"),
        ("2031-07-01T09:00:00Z", None, "2031-07-01T09:00:00+00:00"),
    ],
)
def test_a_text_is_one_instant(text: str, zone: str | None, instant: str) -> None:
    assert read_instant(text, zone, NOW).isoformat() == instant


@pytest.mark.parametrize(
    ("text", "zone", "says"),
    [
        ("2031-03-30 02:30", "Europe/Berlin", "is left out when the clock changes"),
        ("2031-10-26 02:30", "Europe/Berlin", "is shown twice when the clock changes"),
        ("25:00", "UTC", "hour must be in"),
        ("someday 9:00", "UTC", "is no time"),
        ("2031-02-30 9:00", "UTC", "is no time"),
        ("9", "UTC", "is no time"),
        ("9:00", "Europe", "is no time zone"),
        ("9:00", "../../etc/passwd", "is no time zone"),
    ],
)
def test_what_nobody_can_know_is_refused(text: str, zone: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_instant(text, zone, NOW)


def test_without_a_zone_it_is_the_clock_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert read_instant("tomorrow 9:00", None, NOW).isoformat() == "2031-01-02T00:00:00+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
