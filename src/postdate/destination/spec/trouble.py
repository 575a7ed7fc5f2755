"""Destinations in trouble: those with an open breaker, until when, and their last answers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from postdate.destination.spec.target import Target, parse
from postdate.job.spec.job import JobDestination, Queue, Webhook

DestinationKey = tuple[int, str]
"""A tenant, and its destination's name, or a URL without its query."""


class TroubleReport(NamedTuple):
    """A destination in trouble, as one process sees it.

    Seconds count from now; `recorded` increases with each call that is recorded.
    """

    recorded: int
    held_seconds: float
    open_for_seconds: float
    calls: int
    successes: int
    p99_ms: int
    answers: tuple[str, ...]


class Trouble(msgspec.Struct, frozen=True):
    """A destination whose breaker is open somewhere, as all nodes together see it.

    `label` is its name, or its URL without the query. Rate and p99 are of its latest calls since
    the trouble began; answers are the latest, the newest last.
    """

    tenant_id: int
    label: str
    held_until: datetime
    since: datetime
    calls: int
    successes: int
    p99_ms: int
    answers: Sequence[str]


class Troubles:
    """What a node knows of all destinations in trouble: refreshed with the settings."""

    def __init__(self) -> None:
        self._by_tenant: dict[int, dict[str, Trouble]] = {}

    def replace(self, troubles: Iterable[Trouble]) -> None:
        """Replace the known troubles."""
        by_tenant: dict[int, dict[str, Trouble]] = {}
        for trouble in troubles:
            by_tenant.setdefault(trouble.tenant_id, {})[trouble.label] = trouble
        self._by_tenant = by_tenant

    def of_tenant(self, tenant_id: int) -> list[Trouble]:
        """List a tenant's, those in trouble for longest first."""
        found = self._by_tenant.get(tenant_id, {}).values()
        return sorted(found, key=lambda trouble: (trouble.since, trouble.label))

    def at(self, tenant_id: int, label: str) -> Trouble | None:
        """Find the trouble of a target by name."""
        found = self._by_tenant.get(tenant_id)
        return None if found is None else found.get(label)

    def of_job(self, tenant_id: int, destination: JobDestination) -> Trouble | None:
        """Find the trouble of a job's destination."""
        if tenant_id not in self._by_tenant:
            return None
        label = trouble_name(destination)
        return None if label is None else self.at(tenant_id, label)


def trouble_name(destination: JobDestination) -> str | None:
    """Return the name of a job's target; jobs for workers have none."""
    match destination:
        case Webhook(name=str(name)) | Queue(name=name):
            return name
        case Webhook(url=str(url)):
            target = parse(url)
            return url_trouble_name(target) if isinstance(target, Target) else None
        case _:
            return None


def url_trouble_name(target: Target) -> str:
    """Return the name of a bare URL's target: without its query, which often identifies the job."""
    return target.url.partition("?")[0]
