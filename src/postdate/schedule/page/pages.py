"""Schedules: the list with their latest runs, and one with its coming and past occurrences."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.core.log import Log
from postdate.event.page.pages import subject_events
from postdate.http.endpoint import existing
from postdate.recurrence.rule import RAN, Status
from postdate.recurrence.words import in_words
from postdate.schedule.spec.preview import ComingView, Preview
from postdate.schedule.spec.spec import ScheduleView
from postdate.schedule.view import OccurrenceView

log = Log()

PAGE: Final = 50
STRIP: Final = 40
"""How many runs a strip shows."""

LATEST: Final = 10
"""A schedule is FAILING when none of its latest runs, of this number, has succeeded."""

ENDED: Final = {"COMPLETED": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled"}
COMING: Final = 10
BOOK: Final = 50

NOTES: Final = {
    "gap_skipped": "skipped: the clock jumps over this time",
    "gap_shifted_back": "moved back: the clock jumps over this time",
    "gap_shifted_forward": "moved forward: the clock jumps over this time",
    "repeated_first": "the clock shows this time twice: the first",
    "repeated_second": "the clock shows this time twice: the second",
    "closed_day": "a closed day of the calendar",
    "rolled_following": "moved to the next open day",
    "rolled_preceding": "moved to the open day before",
    "rolled_modified_following": "moved to the next open day of the month",
    "rolled_none": "skipped",
    "excluded_date": "an excluded date",
    "merged": "several occurrences merged",
    "moved_by_calendar": "a new calendar moved it before the upload: it ran immediately",
}
DST: Final = ("gap_", "repeated_")


class ScheduleFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    missed: bool = False
    set_aside: bool = False
    after: UUID | None = None


class OccurrenceFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of the occurrences of one schedule, and where the page begins."""

    status: Status | None = None
    before: UUID | None = None


async def schedules_page(request: PageRequest) -> Response:
    """List schedules, the oldest first, each with its latest runs."""
    query, views, tenant_id = (
        request.query(ScheduleFilters),
        request.services.schedule.read,
        request.actor.tenant_id,
    )
    await request.learn_names()
    found, following = await views.page(
        request.actor, query.after, PAGE, missed=query.missed, set_aside=query.set_aside
    )
    return request.render(
        "schedules.html",
        schedules=found,
        strips=await views.recent_occurrences(tenant_id, found, STRIP),
        currencies=await currencies_of(request, found),
        pausers=await views.paused_by(tenant_id, found),
        query=query,
        following=request.next_page(after=following),
        words=words,
        status_words=status_words,
        runs=RUNS,
    )


async def schedule_page(request: PageRequest) -> Response:
    """Show one schedule: its coming and past occurrences, and its policies."""
    schedule_id, tenant_id = request.uuid("schedule_id"), request.actor.tenant_id
    query, views = request.query(OccurrenceFilters), request.services.schedule.read
    schedule = existing(await views.find(request.actor, schedule_id), "schedule", schedule_id)
    book = await views.book(
        request.actor, schedule_id, query.before, status=query.status, limit=BOOK
    )
    rows, more = existing(book, "schedule", schedule_id)
    preview = await _preview(request, schedule_id)
    await request.learn_names()
    return request.render(
        "schedule.html",
        schedule=schedule,
        coming=preview.occurrences if preview else [],
        warnings=preview.warnings if preview else [],
        book=rows,
        currencies=await currencies_of(request, [schedule]),
        strip=(await views.recent_occurrences(tenant_id, [schedule], STRIP)).get(schedule_id, []),
        pauser=(await views.paused_by(tenant_id, [schedule])).get(schedule_id),
        events=await subject_events(request, schedule_id),
        query=query,
        statuses=list(Status),
        following=request.next_page(before=more),
        words=words,
        status_words=status_words,
        runs=RUNS,
        marks=marks,
        roll_words=roll_words,
        delay=delay,
        ran=RAN,
        # A backfill is most often wanted for the last day.
        backfill_from=(request.now - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S"),
        backfill_until=request.now.strftime("%Y-%m-%dT%H:%M:%S"),
    )


async def currencies_of(request: PageRequest, found: Sequence[ScheduleView]) -> dict[str, str]:
    """Return what the payments of schedules are in, by the payer's account."""
    payers = [one.template.payment.from_account_id for one in found if one.template.payment]
    return await request.services.account.read.currencies(request.actor, payers)


async def _preview(request: PageRequest, schedule_id: UUID) -> Preview | None:
    """Compute the coming occurrences; None for a schedule that cannot be computed."""
    try:
        return await request.services.schedule.read.preview(request.actor, schedule_id, COMING)
    except Exception:
        log.exception("schedule.not_previewed", schedule_id=str(schedule_id))
        return None


def words(schedule: ScheduleView) -> str:
    """Return a schedule's rule in words."""
    return in_words(
        schedule.cron,
        schedule.every_seconds,
        schedule.rrule,
        schedule.start_at,
        schedule.timezone,
    )


def status_words(status: str) -> str:
    """Write a status in lower case and with spaces."""
    return status.lower().replace("_", " ")


def run_look(row: OccurrenceView) -> str:
    """Return how a run came out: what it created has succeeded, failed, been cancelled, or goes on.

    That something was created says nothing about how it ended.
    """
    match row.status:
        case Status.FIRED | Status.LATE | Status.BUFFERED:
            return ENDED.get(row.outcome or "", "created")
        case Status.MISSED | Status.REFUSED:
            return "missed"
        case _:
            return "skipped"


def run_words(row: OccurrenceView) -> str:
    """Write how a run came out, and what its label adds to that."""
    look = run_look(row)
    if look in {"missed", "skipped"}:
        return status_words(row.status)
    open_yet = ", not finished" if look == "created" else ""
    return look + open_yet + (", late" if row.status is Status.LATE else "")


def run_link(row: OccurrenceView) -> str:
    """Return the page of what a run created; empty where it created nothing."""
    if row.job_id is not None:
        return f"/jobs/{row.job_id}"
    return "" if row.payment_id is None else f"/payments/{row.payment_id}"


def shown_status(schedule: ScheduleView, runs: Sequence[OccurrenceView]) -> str:
    """Return the status, or FAILING where none of the latest runs that ended has succeeded."""
    ended = [row.outcome for row in runs if row.outcome in {"COMPLETED", "FAILED"}][-LATEST:]
    if schedule.status == "ACTIVE" and ended and "COMPLETED" not in ended:
        return "FAILING"
    return schedule.status


def roll_words(roll: str) -> str:
    """Describe what happens to an occurrence on a closed day."""
    return NOTES.get(f"rolled_{roll}", status_words(roll))


def marks(one: ComingView | OccurrenceView) -> list[tuple[str, str]]:
    """Return what the policies did, each with a class: a change of the clock stands out."""
    return [
        ("dst" if note.startswith(DST) else "note", NOTES.get(note, status_words(note)))
        for note in one.notes
    ]


def delay(row: OccurrenceView) -> int | None:
    """Return by how many milliseconds an occurrence came later than expected."""
    if row.status not in RAN:
        return None
    return round(_seconds(row.due_at, row.created_at) * 1000)


def _seconds(begin: datetime, end: datetime) -> float:
    return max(0.0, (end - begin).total_seconds())


RUNS: Final = {
    "look": run_look,
    "words": run_words,
    "link": run_link,
    "status": shown_status,
}
"""What templates ask about runs."""

PAGES: Final = (
    ConsolePage("/schedules", schedules_page, Scope.SCHEDULES_READ, limited="filtered"),
    ConsolePage(
        "/schedules/{schedule_id:uuid}", schedule_page, Scope.SCHEDULES_READ, limited="filtered"
    ),
)
