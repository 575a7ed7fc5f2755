"""A pytest plugin: dateutil's rules are answered by Postdate's engine, where it takes them."""
# ruff: noqa: SLF001 - what is replaced lies inside dateutil

import atexit
import json
import os
import sys
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from dateutil import rrule as theirs

from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Dst, Rule
from postdate.words.error import RefusedError

COUNTS: Final = "POSTDATE_SUITE_COUNTS"
BEFORE: Final = timedelta(days=1)
answered: Counter[str] = Counter()
_rrule: Final[Any] = theirs.rrule
_original: Final = _rrule._iter


def _iterate(rule: Any) -> Iterator[datetime]:
    """Iterate as dateutil does, by our engine."""
    if rule._byeaster or rule._dtstart.tzinfo is not None:
        answered["not applicable: Easter, or a zone of its own"] += 1
        yield from _original(rule)
        return
    found = _ours(rule)
    try:
        first = next(found, None)
    except RefusedError:
        answered["refused by Postdate, by a MUST NOT of RFC 5545"] += 1
        yield from _original(rule)
        return
    answered["by Postdate"] += 1
    total = 0
    while first is not None:
        total += 1
        yield first
        first = next(found, None)
    rule._len = total


def _ours(rule: Any) -> Iterator[datetime]:
    _, _, text = str(rule).partition("RRULE:")
    start = rule._dtstart.replace(tzinfo=UTC)
    plan = RecurrencePlan(Rule(rrule=text.strip(), start_at=start), Dst())
    for each in occurrences(plan, start - BEFORE):
        yield each.scheduled_for.replace(tzinfo=None)


def _keep() -> None:
    if place := os.environ.get(COUNTS):
        Path(place).write_text(json.dumps(answered))


def pytest_configure() -> None:
    """Replace the engine; the suite's other needs are stubs where they are not installed."""
    _rrule._iter = _iterate
    if find_spec("freezegun") is None:
        stub: Any = types.ModuleType("freezegun")
        stub.freeze_time = nullcontext
        sys.modules["freezegun"] = stub
    atexit.register(_keep)
