"""What a confirmation is about: the facts of a thing that its address names only by an id."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from postdate.console.page_request import PageRequest
from postdate.console.render import amount, target
from postdate.core.identity import Scope
from postdate.recurrence.words import in_words
from postdate.schedule.spec.spec import ScheduleView
from postdate.subscription.page.pages import target_of

Facts = list[tuple[str, str | datetime]]


async def _payment(request: PageRequest) -> Facts:
    found = await request.services.payment.read.find(request.actor, request.uuid("payment_id"))
    if found is None:
        return []
    return [
        *_described(found.description),
        ("Amount", amount(found.amount)),
        ("From", found.from_account_id),
        ("To", found.to_account_id),
        ("Due", found.scheduled_time),
        ("Status", found.status),
    ]


async def _job(request: PageRequest) -> Facts:
    job_ids = [request.uuid("job_id")]
    found = await request.services.job.read.find_many(request.actor.tenant_id, job_ids)
    return [
        fact
        for job in found
        for fact in [
            *_described(job.description),
            ("Goes to", target(job.destination)),
            ("Lane", job.lane),
            ("Due", job.due_at),
            ("Status", job.status),
        ]
    ]


async def _schedule(request: PageRequest) -> Facts:
    found = await request.services.schedule.read.find(request.actor, request.uuid("schedule_id"))
    if found is None:
        return []
    rule = in_words(found.cron, found.every_seconds, found.rrule, found.start_at, found.timezone)
    facts: Facts = [("Name", found.name)] if found.name else []
    facts += [("Rule", f"{rule}, {found.timezone}"), ("Creates", _created(found))]
    facts += [("Next", found.next_due_at)] if found.next_due_at else []
    return [*facts, ("Status", found.status)]


async def _subscription(request: PageRequest) -> Facts:
    subscription_id = request.uuid("subscription_id")
    found = await request.services.subscription.read.find(request.actor, subscription_id)
    if found is None:
        return []
    return [
        ("Sends to", target_of(found.destination)),
        ("Types", ", ".join(found.types)),
        ("Behind", f"{amount(found.lag_events)} events"),
    ]


async def _key(request: PageRequest) -> Facts:
    await request.learn_names()
    name = request.names.get(str(request.uuid("key_id")))
    return [("What it is for", name)] if name else []


def _described(description: str | None) -> Facts:
    return [("Description", description)] if description else []


def _created(schedule: ScheduleView) -> str:
    payment, job = schedule.template.payment, schedule.template.job
    if payment is not None:
        accounts = f"from {payment.from_account_id} to {payment.to_account_id}"
        return f"a payment of {amount(payment.amount)} {accounts}"
    return "" if job is None else f"a job for {target(job.destination)}, lane {job.lane}"


_READERS: Final[Mapping[str, tuple[Scope, Callable[[PageRequest], Awaitable[Facts]]]]] = (
    MappingProxyType(
        {
            "payment_id": (Scope.PAYMENTS_READ, _payment),
            "job_id": (Scope.JOBS_READ, _job),
            "schedule_id": (Scope.SCHEDULES_READ, _schedule),
            "subscription_id": (Scope.ADMIN, _subscription),
            "key_id": (Scope.ADMIN, _key),
        }
    )
)


async def read_facts(request: PageRequest) -> Facts:
    """Return the facts of what the address names; none where the key may not read them."""
    for name, (scope, read) in _READERS.items():
        if name in request.http.path_params and request.actor.allows(scope):
            return await read(request)
    return []


async def read_facts_if_possible(request: PageRequest) -> Facts:
    """Return the same facts; none while they cannot be read."""
    try:
        return await read_facts(request)
    except Exception as error:  # noqa: BLE001 - an unknown one is raised again
        request.refusal_of(error)
        return []
