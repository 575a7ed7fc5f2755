"""Accept jobs: many in one commit, one outcome for each."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from postdate.core.ids import MIN_ID
from postdate.core.instant import instant_text
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.destination.spec.target import Networks
from postdate.intake.idempotency import OK, KeyedRequest, OpenKeys, Refused, kept_body, keyed
from postdate.intake.pipeline import Known, Pipeline, Strategy
from postdate.intake.store import IdempotencyKey, IdempotencyRow, key_of
from postdate.job.accept import unique as unique_jobs
from postdate.job.accept import validation
from postdate.job.accept.group import JobGroup, JobRules, new_job
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.accept.repeat import differing_fields
from postdate.job.accept.request import AcceptedJob, CheckedJob, JobRequest
from postdate.job.accept.unique import UniqueJobs
from postdate.job.accept.validation import ANY_TIME, LaneOfJob, Route
from postdate.job.spec.job import JobDestination, Queue, Webhook
from postdate.job.spec.tally import Tally
from postdate.job.spec.view import JobView
from postdate.job.store import job as job_store
from postdate.lane.change import Lanes
from postdate.lane.store.lane import Lane, LaneKey
from postdate.monitor.store.item_log import items as item_log
from postdate.runtime.coalescer import Coalescer
from postdate.secret.payload_encryption import PayloadCipher
from postdate.tenant.spec.quota import Quotas
from postdate.words.error import Refusal

Named = tuple[int, str, str]
"""A destination known by its name: tenant, type, name."""

Where = tuple[int, LaneOfJob, JobDestination]
"""What most jobs of a batch share: tenant, lane, destination."""

IMPATIENT: Final = "SET LOCAL lock_timeout = '100ms'"
"""An own transaction may have made the lane and not ended: a whole batch waits for it."""

CheckNames = Callable[[Collection[Named]], Awaitable[Mapping[Named, Refusal]]]
"""Returns which of these destinations may not be used, and why."""

OnAccept = Callable[[int, float], None]
"""Called after a commit with a lane, and in how many seconds something of it is due."""

JobAnswer = AcceptedJob | Refused


class JobStrategy(Strategy[JobRequest, CheckedJob, AcceptedJob]):
    """How jobs go through the pipeline."""

    def __init__(
        self,
        database: Database,
        lanes: Lanes,
        settings: Settings,
        *,
        allowed: Networks,
        check_names: CheckNames,
        encryption: PayloadEncryption,
        quotas: Quotas,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._allowed = allowed
        self._check_names = check_names
        self._encryption = encryption
        self._quotas = quotas

    async def validate(self, items: Sequence[JobRequest]) -> list[CheckedJob | Refusal]:
        """Validate destination, lane and payload, and create missing lanes."""
        numbers: dict[Where, int] = {}
        which = [
            numbers.setdefault(
                (
                    each.tenant_id,
                    LaneOfJob(each.spec.lane, each.spec.priority, each.spec.key is not None),
                    each.spec.destination,
                ),
                len(numbers),
            )
            for each in items
        ]
        routes = await self._routes(numbers)
        await self._encryption.prepare_keys(self._database, {each.tenant_id for each in items})
        checked: list[CheckedJob | Refusal] = [
            to
            if isinstance(to := routes[number], Refusal)
            else validation.check(each, to, self.keyed(each))
            for each, number in zip(items, which, strict=True)
        ]
        known = self._lanes.directory.by_key
        missing = any(to.lane_key not in known for to in routes if isinstance(to, Route))
        return await self._with_lanes(checked) if missing else checked

    def keyed(self, request: JobRequest) -> KeyedRequest | None:
        """Return a request under its key, if it has one."""
        if request.key is None:
            return None
        key = key_of(request.tenant_id, request.key_scope, request.key)
        return keyed(key, self._encryption.canonical(request.tenant_id, request.spec))

    async def _routes(self, wanted: Collection[Where]) -> list[Route | Refusal]:
        """Check the destinations of a batch, each distinct one once."""
        names = {named for tenant_id, _, to in wanted if (named := _named(tenant_id, to))}
        unknown = await self._check_names(names) if names else {}
        routes: list[Route | Refusal] = []
        for tenant_id, lane, to in wanted:
            route = validation.route(tenant_id, lane, to, self._allowed)
            named = _named(tenant_id, to)
            if named is not None and named in unknown and isinstance(route, Route):
                route = unknown[named]
            routes.append(route)
        return routes

    async def _with_lanes(
        self, checked: Sequence[CheckedJob | Refusal]
    ) -> list[CheckedJob | Refusal]:
        """Create missing lanes, but only for jobs whose time is valid."""
        async with self._database.write("lane.ensure") as connection:
            await connection.execute(IMPATIENT)
            now = await clock.now(connection)
            judged = [
                each if isinstance(each, Refusal) else self._timely(each, now) for each in checked
            ]
            lane_keys = {each.lane_key for each in judged if not isinstance(each, Refusal)}
            found, refused = await self._lanes.ensure(connection, lane_keys)
        self._lanes.directory.remember(found)
        return [
            each if isinstance(each, Refusal) else refused.get(each.lane_key, each)
            for each in judged
        ]

    def _timely(self, item: CheckedJob, now: datetime) -> CheckedJob | Refusal:
        window = validation.window(self._settings, item.request.tenant_id)
        seed = item.request.schedule_id or MIN_ID
        times = validation.times(item.request.spec, now, window, seed)
        return times if isinstance(times, Refusal) else item

    async def look(
        self,
        connection: Connection,
        items: Sequence[CheckedJob],
        *,
        locked: bool,
    ) -> JobGroup:
        """Lock unique keys, then read the database's time and the known keys."""
        unique = await unique_jobs.lock(connection, items) if locked else None
        keys = [each.keyed.key for each in items if each.keyed is not None]
        now, known = await job_store.look(connection, keys)
        return self.group(now, known, unique=unique)

    def locks(self, items: Sequence[CheckedJob | Refusal]) -> bool:
        """Return whether an item has a unique key, which is locked before it is decided on."""
        for each in items:
            if not isinstance(each, Refusal) and each.request.spec.unique is not None:
                return True
        return False

    def group(
        self,
        now: datetime,
        known: Mapping[IdempotencyKey, IdempotencyRow],
        lanes: Mapping[LaneKey, Lane] | None = None,
        unique: UniqueJobs | None = None,
    ) -> JobGroup:
        """Return an empty group of jobs that is decided at this instant."""
        rules = JobRules(self._settings, self._quotas, self._encryption, self._database.unix_ms())
        return JobGroup(now, known, lanes or self._lanes.directory.by_key, rules, unique)

    async def replay(
        self,
        connection: Connection,  # noqa: ARG002 - all follows from the request and the key
        known: Sequence[Known[CheckedJob]],
    ) -> list[AcceptedJob]:
        """Rebuild the answers from the jobs as they were accepted."""
        return [_again(each) for each in known]

    def stored_answer(self, known: Known[CheckedJob]) -> AcceptedJob | Refused:
        """Return the answer to a request that was merged into a job that waited."""
        found = kept_body(known.row, JobView)
        if found is None:
            return super().stored_answer(known)
        times = found.due_at, found.effective_at
        job = new_job(known.item, (found.job_id, 0), times)
        return AcceptedJob(job, known.item.request, known.row.created_at, True, found, OK)

    async def differing_fields(
        self, connection: Connection, known: Known[CheckedJob]
    ) -> list[str] | None:
        """Name the fields in which a request differs from the job as it was accepted."""
        return await differing_fields(connection, self._lanes.directory, self._encryption, known)


class JobIntake:
    """Accepts jobs. `accept` takes a batch; `submit` groups single requests into batches."""

    def __init__(  # noqa: PLR0913 - every part of accepting is injected here, by name
        self,
        database: Database,
        lanes: Lanes,
        settings: Settings,
        *,
        allowed: Networks,
        check_names: CheckNames,
        on_accept: Iterable[OnAccept] = (),
        tallies: Mapping[str, Tally] | None = None,
        cipher: PayloadCipher | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.encryption = PayloadEncryption(settings, cipher)
        self.strategy = JobStrategy(
            database,
            lanes,
            settings,
            allowed=allowed,
            check_names=check_names,
            encryption=self.encryption,
            quotas=quotas or Quotas(settings),
        )
        self.pipeline = Pipeline(database, self.strategy)
        self._lanes = lanes
        self._open_keys = OpenKeys()
        self._grouper: Coalescer[JobRequest, JobAnswer] = Coalescer(self.accept)
        # Apart: a unique key may have to be waited for, and other jobs need not wait with it.
        self._unique_grouper: Coalescer[JobRequest, JobAnswer] = Coalescer(self.accept)
        # Read at each commit: loops that start later add themselves.
        self._on_accept = on_accept
        self._tallies = tallies or {}

    async def submit(self, request: JobRequest) -> JobAnswer:
        """Accept one job together with whatever else arrives at the same time."""
        grouper = self._grouper if request.spec.unique is None else self._unique_grouper
        if request.key is None:
            return await grouper.submit(request)
        with self._open_keys.hold(key_of(request.tenant_id, request.key_scope, request.key)):
            return await grouper.submit(request)

    async def accept(self, requests: Sequence[JobRequest]) -> list[JobAnswer]:
        """Accept a set of jobs in one commit."""
        if not requests:
            return []
        results = await self.pipeline.accept(requests)
        self.announce(results)
        return results

    def announce(self, results: Iterable[JobAnswer]) -> None:
        """After the commit, send hints about lanes with work; count and log the jobs."""
        answered = [each for each in results if isinstance(each, AcceptedJob) and not each.replayed]
        accepted = [each for each in answered if each.found is None]
        if item_log.is_enabled("accepted"):
            item_log.write("job.accepted", accepted, _line)
        first: dict[int, datetime] = {}
        for each in answered:
            lane_id, at = each.job.lane_id, each.job.effective_at
            known = first.get(lane_id)
            # Most jobs of a batch share one instant, as the same object.
            if known is not at and (known is None or at < known):
                first[lane_id] = at
        for lane_id, count in Counter(each.job.lane_id for each in accepted).items():
            self._count(lane_id, count)
        for lane_id, at in first.items():
            seconds = (at - answered[0].created_at).total_seconds()
            for hook in self._on_accept:
                hook(lane_id, seconds)

    def _count(self, lane_id: int, jobs: int) -> None:
        lane = self._lanes.directory.by_id.get(lane_id)
        if lane is not None and lane.kind in self._tallies:
            self._tallies[lane.kind].accepted(jobs)


def _again(known: Known[CheckedJob]) -> AcceptedJob:
    item, row = known.item, known.row
    if row.subject is None:
        raise LookupError(f"the key {row.key.hash} led to no job")
    seed = item.request.schedule_id or row.subject
    times = validation.times(item.request.spec, row.created_at, ANY_TIME, seed)
    if isinstance(times, Refusal):
        raise TypeError(f"a request that was accepted is not valid: {times.detail}")
    job = new_job(item, (row.subject, 0), times)
    return AcceptedJob(job, item.request, row.created_at, replayed=True)


def _line(accepted: AcceptedJob) -> dict[str, Any]:
    job = accepted.job
    return {
        "tenant_id": job.tenant_id,
        "job_id": str(job.job_id),
        "lane": accepted.request.spec.lane,
        "due_at": instant_text(job.effective_at),
    }


def _named(tenant_id: int, destination: JobDestination) -> Named | None:
    match destination:
        case Webhook(name=str(name)):
            return tenant_id, "webhook", name
        case Queue(name=name):
            return tenant_id, "queue", name
        case _:
            return None
