"""Jobs: the list with its filters, and one with its attempts."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.change_set.page.what_if_buttons import CHANGE
from postdate.console.export import as_it_is, send_file
from postdate.console.page_request import ConsolePage, PageRequest, instant
from postdate.core import any_json
from postdate.core.identity import Scope
from postdate.core.status import JobStatus
from postdate.event.page.pages import subject_events
from postdate.event.page.timeline import job_timeline, last_decision
from postdate.http.endpoint import existing
from postdate.job.page.bulk_buttons import filter_query
from postdate.job.page.wait_reason import WaitFacts, destination_name, why_put_off, why_waiting
from postdate.job.page.waterfall import waterfall
from postdate.job.spec.destination_words import target
from postdate.job.spec.job import Worker
from postdate.job.spec.view import JobView
from postdate.job.view import JobCursor, JobFilter
from postdate.lane.spec import Priority
from postdate.monitor.view.counted import MarkedCount
from postdate.words.error import Code, refuse

PAGE: Final = 50
COUNTED: Final = ("PENDING", "READY", "RUNNING", "UNKNOWN")
"""The statuses that a list counts: the jobs of the others are kept for long, and are not."""

MAX_LANES: Final = 100
"""The most lanes whose jobs a list counts."""

MAX_NAMED: Final = 10
"""The most schedules whose names a page of jobs reads."""
MAX_ATTEMPTS: Final = 100
"""No job has more: `job.max_attempts` ends there."""


COLUMNS: Final = (
    "job_id",
    "status",
    "description",
    "lane",
    "key",
    "priority",
    "destination",
    "due_at",
    "effective_at",
    "created_at",
    "attempt",
    "next_attempt_at",
    "finished_at",
    "lateness_ms",
    "code",
    "error",
    "in_doubt",
    "http_status",
    "schedule_id",
    "origin_id",
    "redriven_as",
    "metadata",
)


class JobFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a list of jobs."""

    status: JobStatus | None = None
    lane: str | None = None
    key: str | None = None
    priority: Priority | None = None
    code: str | None = None
    destination: str | None = None
    unique: str | None = None
    schedule: UUID | None = None
    due_after: str | None = None
    due_before: str | None = None
    text: str | None = None
    after: UUID | None = None
    at: str | None = None

    @property
    def filter(self) -> JobFilter:
        """Return the filter alone."""
        return JobFilter(
            # Only what has ended has a code.
            status=self.status or (JobStatus.FAILED if self.code else None),
            lane=self.lane,
            key=self.key,
            priority=self.priority,
            code=self.code,
            destination=self.destination,
            unique=self.unique,
            schedule_id=self.schedule,
            due_after=instant(self.due_after, "due_after"),
            due_before=instant(self.due_before, "due_before"),
            text=self.text,
        )

    @property
    def cursor(self) -> JobCursor | None:
        """Return the position at which the page begins."""
        if self.after is None:
            return None
        given = {"job_id": self.after, "due_at": self.at}
        try:
            return msgspec.convert(given, JobCursor)
        except msgspec.ValidationError:
            raise refuse(Code.INVALID_CURSOR, "The position in the list is not valid.") from None


async def jobs_page(request: PageRequest) -> Response:
    """List jobs: open ones by their instant, others the newest first."""
    query = request.query(JobFilters)
    jobs, following = await request.services.job.read.page(
        request.actor.tenant_id, query.filter, query.cursor, PAGE
    )
    next_page = None
    if following is not None:
        next_page = request.next_page(after=following.job_id, at=following.due_at)
    given = msgspec.structs.asdict(query)
    return request.render(
        "jobs.html",
        jobs=jobs,
        schedules=await _schedule_names(request, jobs),
        counts=await _status_counts(request, query),
        query=query,
        following=next_page,
        statuses=list(JobStatus),
        status_link=lambda status: request.address_with(status=status, after=None, at=None),
        filtered=query.filter != JobFilter(),
        matching=request.filters("after", "at"),
        bulk=filter_query(given),
        what_if=filter_query(given, CHANGE),
    )


async def _status_counts(request: PageRequest, query: JobFilters) -> dict[str, MarkedCount]:
    """Count the open jobs by status: all of them, or those of the lane that the list is about.

    Any other filter leaves fewer: then nothing is counted, because a number must be that of the
    list which it opens.
    """
    if query.filter not in {JobFilter(status=query.status), _lane_alone(query)}:
        return {}
    read, tenant_id = request.services.lane.read, request.actor.tenant_id
    if query.lane is not None:
        found = await read.find(tenant_id, query.lane)
        lanes = [] if found is None else [found]
    else:
        lanes, more = await read.page(tenant_id, "", MAX_LANES)
        if more is not None:
            return {}
    capped = any(lane.counts_capped for lane in lanes)
    return {
        status: MarkedCount(sum(getattr(lane, status.lower()) for lane in lanes), capped)
        for status in COUNTED
    }


def _lane_alone(query: JobFilters) -> JobFilter:
    return JobFilter(status=query.status, lane=query.lane)


async def _schedule_names(request: PageRequest, jobs: Sequence[JobView]) -> dict[UUID, str]:
    """Return the names of the schedules that made these jobs, of a few of them."""
    if not request.actor.allows(Scope.SCHEDULES_READ):
        return {}
    ids = list(dict.fromkeys(job.schedule_id for job in jobs if job.schedule_id is not None))
    read = request.services.schedule.read
    found = [await read.find(request.actor, each) for each in ids[:MAX_NAMED]]
    return {each.schedule_id: each.name for each in found if each is not None and each.name}


async def jobs_file(request: PageRequest) -> Response:
    """Return the same list as a file."""
    query = request.query(JobFilters)

    async def read(after: JobCursor | None, limit: int) -> tuple[list[JobView], JobCursor | None]:
        start = query.cursor if after is None else after
        return await request.services.job.read.page(
            request.actor.tenant_id, query.filter, start, limit
        )

    columns = {**dict.fromkeys(COLUMNS, as_it_is), "destination": target}
    return await send_file(request, "jobs", columns, read)


async def job_page(request: PageRequest) -> Response:
    """Show one job, every attempt at it, and why it is not done."""
    job_id = request.uuid("job_id")
    tenant_id = request.actor.tenant_id
    job = existing(await request.services.job.read.find(tenant_id, job_id), "job", job_id)
    events = await subject_events(request, job_id)
    attempts = await request.services.job.read.attempts(tenant_id, job_id, 0, MAX_ATTEMPTS)
    await request.learn_names(nodes=True)
    why = await _why_waiting(request, job)
    schedule = await _schedule_name(request, job)
    return request.render(
        "job.html",
        job=job,
        schedule=schedule,
        decision=last_decision(events),
        rows=waterfall(job, attempts or [], request.now),
        last_attempt=attempts[-1].attempt if attempts else 0,
        result=_result(job),
        timeline=job_timeline(job, attempts or [], events, request.now),
        events=events,
        payload=_payload(job),
        why=why,
    )


def _payload(job: JobView) -> str | None:
    """Show a payload as it was given: JSON indented, anything else in base64."""
    if isinstance(job.payload, msgspec.Raw):
        return any_json.indented(bytes(job.payload))
    return job.payload_base64


def _result(job: JobView) -> str | None:
    """Show what the worker has returned."""
    if not isinstance(job.result, msgspec.Raw):
        return None
    return any_json.indented(bytes(job.result))


async def _schedule_name(request: PageRequest, job: JobView) -> str | None:
    """Return what the schedule is called that has made the job, for keys that may read it."""
    if job.schedule_id is None or not request.actor.allows(Scope.SCHEDULES_READ):
        return None
    found = await request.services.schedule.read.find(request.actor, job.schedule_id)
    return None if found is None else found.name


async def _why_waiting(request: PageRequest, job: JobView) -> str | None:
    """Read what may keep a due job from starting, and say which of it does."""
    ready = job.status is JobStatus.READY
    # One that no node can open was due, and is due again in a moment.
    put_off = job.status is JobStatus.PENDING and job.effective_at <= request.now
    if not ready and not put_off:
        return None
    services, tenant_id = request.services, request.actor.tenant_id
    lane = await services.lane.read.find(tenant_id, job.lane)
    if lane is None:
        return None
    name = destination_name(job)
    overview = await services.overview.get(tenant_id)
    facts = WaitFacts(
        lane=lane,
        pulled=isinstance(job.destination, Worker),
        halts=await services.halt.read.page(tenant_id),
        worker_nodes=overview.slow.nodes.get("worker", 0),
        missing_keys=overview.slow.missing_keys,
        destination=None if name is None else await services.destination.read.find(tenant_id, name),
        now=request.now,
        who=request.who,
    )
    return why_waiting(job, facts) if ready else why_put_off(job, facts)


PAGES: Final = (
    ConsolePage("/jobs", jobs_page, Scope.JOBS_READ),
    ConsolePage("/jobs.{kind}", jobs_file, Scope.JOBS_READ),
    ConsolePage("/jobs/{job_id:uuid}", job_page, Scope.JOBS_READ),
)
