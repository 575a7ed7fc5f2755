"""The recurrence cases of libical: a rule, its start, and every instance (RFC 5545's own too)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Dst, Rule
from postdate.words.error import RefusedError
from postdate_lab.suites.result import SuiteResult, directory

FILE: Final = "src/test/icalrecur_test.txt"
NAME: Final = "libical"
FORM: Final = "%Y%m%dT%H%M%S"
DAY_FORM: Final = "%Y%m%d"
"""A date is compared as its midnight: a schedule always has a time."""

BEFORE: Final = timedelta(days=1)

REASONS: Final = {
    "a schedule runs by its rule: a start that the rule does not name does not run": "its start",
    "libical itself does not implement the case": "UNIMPLEMENTED",
    "`BYWEEKNO` with an interval: the years are counted from the start's, as dateutil does":
        "BYWEEKNO.*INTERVAL|INTERVAL.*BYWEEKNO",
    "`FREQ=YEARLY;BYMONTHDAY` without a month means every month (the page of rules says why)":
        r"FREQ=YEARLY(?!.*BYMONTH=).*BYMONTHDAY",
    "a date has no minutes for libical; as its midnight it has": "BYMINUTE",
    "the rule is refused by a MUST NOT of RFC 5545, with the part that is wrong": "refused",
}  # fmt: skip


def run() -> SuiteResult:
    """Compare every case."""
    text = (directory(NAME) / FILE).read_text()
    result = SuiteResult(name="libical icalrecur_test", source=f"{NAME}, {FILE}")
    for block in text.split("\n\n"):
        case = dict(line.split(":", 1) for line in block.splitlines() if ":" in line[:12])
        if "RRULE" in case and "DTSTART" in case:
            result.add(case["RRULE"], _differs(case), REASONS)
    return result


def _differs(case: dict[str, str]) -> str:
    """Say how the instances differ."""
    wanted = case.get("INSTANCES", case.get("INSTANCE", "")).strip()
    if "***" in wanted:
        return _refusal(case, wanted)
    theirs = wanted.replace("Z", "").split(",") if wanted else []
    try:
        ours = list(islice(_ours(case), len(theirs) + 1))
    except RefusedError as refused:
        return f"refused: {refused}"
    if ours == theirs:
        return ""
    if [case["DTSTART"].strip().rstrip("Z"), *ours][: len(theirs)] == theirs:
        return "its start"
    return f"{ours[:3]} for {theirs[:3]}"


def _refusal(case: dict[str, str], wanted: str) -> str:
    """Say how a rule differs that libical refuses: Postdate must refuse it, too."""
    try:
        next(_ours(case), None)
    except RefusedError:
        return ""
    return wanted


def _ours(case: dict[str, str]) -> Iterator[str]:
    form = FORM if "T" in case["DTSTART"] else DAY_FORM
    start = datetime.strptime(case["DTSTART"].strip().rstrip("Z"), form).replace(tzinfo=UTC)
    rule = Rule(rrule=case["RRULE"].strip(), start_at=start)
    for each in occurrences(RecurrencePlan(rule, Dst()), start - BEFORE):
        yield each.scheduled_for.strftime(form)
