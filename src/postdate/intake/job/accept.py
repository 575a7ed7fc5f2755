"""Accept jobs: many in one commit, one outcome for each."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from postdate.intake.accept.idempotency import InFlight, RaceError, in_flight
from postdate.intake.job import validation as job_rules
from postdate.intake.job.batch import SCOPE, Accepted, Ask, Batch, OnAccept, Result
from postdate.intake.job.lane import Lanes
from postdate.intake.job.payload_encryption import Seals
from postdate.intake.job.validation import Draft, Route
from postdate.model.destination.target import Networks
from postdate.model.error import Refusal
from postdate.model.instant import instant_text
from postdate.model.job.job import Destination, Queue, Webhook
from postdate.model.job.tally import Tally
from postdate.model.setting.setting import Settings
from postdate.model.tenant.quota import Quotas
from postdate.runtime.coalescer import Coalescer
from postdate.store.connection.database import Connection, Database
from postdate.store.idempotency import idempotency as idempotency_store
from postdate.store.idempotency.idempotency import key_of
from postdate.store.job import job as job_store
from postdate.store.operate.item_log import items
from postdate.store.secret.payload_encryption import PayloadCipher

Named = tuple[int, str, str]
"""A destination known by its name: tenant, type, name."""

Where = tuple[int, str, Destination]
"""What most jobs of a batch share: tenant, lane, destination."""

CheckNames = Callable[[Collection[Named]], Awaitable[Mapping[Named, Refusal]]]
"""Says which of these destinations may not be used, and why."""


class JobIntake:
    """Take jobs in. `accept` is the batch; `submit` groups single requests into batches."""

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
        self._quotas = quotas or Quotas(settings)
        self.seals = Seals(settings, cipher)
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._allowed = allowed
        self._check_names = check_names
        self._in_flight = InFlight()
        self._grouper: Coalescer[Ask, Result] = Coalescer(self.accept)
        # Read at each commit: loops that start later add themselves.
        self._on_accept = on_accept
        self._tallies = tallies or {}

    async def submit(self, ask: Ask) -> Result:
        """Accept one job together with whatever else arrives at the same time."""
        if ask.key is None:
            return await self._grouper.submit(ask)
        with self._in_flight.hold(key_of(ask.tenant_id, SCOPE, ask.key)):
            return await self._grouper.submit(ask)

    async def accept(self, asks: Sequence[Ask]) -> Sequence[Result]:
        """Accept a set of jobs in one commit."""
        if not asks:
            return []
        drafts = await self.prepare(asks)
        for _ in range(2):
            try:
                async with self._database.write() as connection:
                    results = await self.write(connection, asks, drafts)
            except RaceError:
                continue
            self.tell(results)
            return results
        raise in_flight()

    async def prepare(self, asks: Sequence[Ask]) -> list[Draft | Refusal]:
        """Check what needs no transaction, and make the lanes that are missing."""
        numbers: dict[Where, int] = {}
        which = [
            numbers.setdefault((ask.tenant_id, ask.spec.lane, ask.spec.destination), len(numbers))
            for ask in asks
        ]
        routes = await self._routes(numbers)
        drafts: list[Draft | Refusal] = [
            to if isinstance(to := routes[number], Refusal) else job_rules.draft(ask.spec, to)
            for ask, number in zip(asks, which, strict=True)
        ]
        known = self._lanes.directory.by_place
        missing = any(to.place not in known for to in routes if isinstance(to, Route))
        return await self._with_lanes(asks, drafts) if missing else drafts

    async def _routes(self, wanted: Collection[Where]) -> list[Route | Refusal]:
        """Decide about destinations: a batch has few of them, each is asked about once."""
        names = {named for tenant_id, _, to in wanted if (named := _named(tenant_id, to))}
        unknown = await self._check_names(names) if names else {}
        routes: list[Route | Refusal] = []
        for tenant_id, lane, to in wanted:
            route = job_rules.route(tenant_id, lane, to, self._allowed)
            named = _named(tenant_id, to)
            if named is not None and named in unknown and isinstance(route, Route):
                route = unknown[named]
            routes.append(route)
        return routes

    async def _with_lanes(
        self, asks: Sequence[Ask], drafts: Sequence[Draft | Refusal]
    ) -> list[Draft | Refusal]:
        """Make missing lanes, but only for jobs that are not refused for their time."""
        async with self._database.write() as connection:
            now = await job_store.now(connection)
            judged = [
                draft if isinstance(draft, Refusal) else self._timely(ask, draft, now)
                for ask, draft in zip(asks, drafts, strict=True)
            ]
            places = {draft.place for draft in judged if not isinstance(draft, Refusal)}
            found, refused = await self._lanes.ensure(connection, places)
        self._lanes.directory.remember(found)
        return [
            draft if isinstance(draft, Refusal) else refused.get(draft.place, draft)
            for draft in judged
        ]

    def _timely(self, ask: Ask, draft: Draft, now: datetime) -> Draft | Refusal:
        window = job_rules.window(self._settings, ask.tenant_id)
        seed = ask.schedule_id or UUID(int=0)
        instants = job_rules.times(ask.spec, now, window, seed)
        return instants if isinstance(instants, Refusal) else draft

    async def write(
        self, connection: Connection, asks: Sequence[Ask], drafts: Sequence[Draft | Refusal]
    ) -> list[Result]:
        """Insert what is new, in the caller's transaction; give one result for each."""
        now = await job_store.now(connection)
        keys = [key_of(ask.tenant_id, SCOPE, ask.key) for ask in asks if ask.key is not None]
        known = await idempotency_store.find(connection, keys) if keys else {}
        await self.seals.prepare(connection, {ask.tenant_id for ask in asks})
        directory = self._lanes.directory.by_place
        batch = Batch(directory, self._settings, now, known, self.seals, self._quotas)
        results = batch.decide(asks, drafts, self._database.unix_ms())
        if batch.jobs:
            jobs = self.seals.jobs(batch.jobs)
            await job_store.insert(connection, jobs, now)
        if not await idempotency_store.insert(connection, batch.kept):
            raise RaceError
        return results

    def tell(self, results: Sequence[Result]) -> None:
        """Hint after the commit which lanes have work, and how soon."""
        accepted = [result for result in results if isinstance(result, Accepted)]
        if items.wants("accepted"):
            items.write("job.accepted", accepted, _line)
        first: dict[int, datetime] = {}
        for each in accepted:
            lane_id, at = each.job.lane_id, each.job.effective_at
            known = first.get(lane_id)
            # Most jobs of a batch share one instant, the very object.
            if known is not at and (known is None or at < known):
                first[lane_id] = at
        for lane_id, count in Counter(each.job.lane_id for each in accepted).items():
            self._count(lane_id, count)
            seconds = (first[lane_id] - accepted[0].created_at).total_seconds()
            for hook in self._on_accept:
                hook(lane_id, seconds)

    def _count(self, lane_id: int, jobs: int) -> None:
        lane = self._lanes.directory.by_id.get(lane_id)
        if lane is not None and lane.kind in self._tallies:
            self._tallies[lane.kind].accepted(jobs)


def _line(accepted: Accepted) -> dict[str, Any]:
    job = accepted.job
    return {
        "tenant_id": job.tenant_id,
        "job_id": str(job.job_id),
        "lane": accepted.ask.spec.lane,
        "due_at": instant_text(job.effective_at),
    }


def _named(tenant_id: int, destination: Destination) -> Named | None:
    match destination:
        case Webhook(name=str(name)):
            return tenant_id, "webhook", name
        case Queue(name=name):
            return tenant_id, "queue", name
        case _:
            return None
