"""The frame of every page: the areas with their counts, and the state of the tenant."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec

from postdate.api.services import Services
from postdate.bulk_action.spec import BulkActionView
from postdate.core.identity import Identity, Scope
from postdate.halt.spec import HaltView
from postdate.monitor.view.counted import MarkedCount
from postdate.monitor.view.overview import Overview

StateName = Literal["running", "stopped", "frozen", "draining", "read-only", "quarantine"]


class Tab(msgspec.Struct, frozen=True):
    """A page of an area; `counts` names the count that stands beside it."""

    path: str
    name: str
    counts: str = ""
    means: str = ""
    """What the count counts."""


class Area(msgspec.Struct, frozen=True):
    """Pages that belong together; the first one is where the area leads."""

    name: str
    tabs: tuple[Tab, ...]


AREAS: Final = (
    Area(
        "Now",
        (
            Tab("/", "Now"),
            Tab(
                "/decisions",
                "Needs a decision",
                "decisions",
                "approvals, unknown outcomes and broken payments",
            ),
        ),
    ),
    Area(
        "Work",
        (
            Tab("/jobs", "Jobs", "jobs", "due and not started"),
            Tab("/schedules", "Schedules", "schedules", "set aside because of an error"),
            Tab("/lanes", "Lanes", "lanes", "late or paused"),
            Tab("/destinations", "Destinations", "destinations", "failing, paused or disabled"),
            Tab("/dead-letters", "Dead letters", "dead_letters", "jobs of 24 h that failed"),
        ),
    ),
    Area(
        "Money",
        (
            Tab("/payments", "Payments", "payments", "due and not settled"),
            Tab("/accounts", "Accounts"),
            Tab("/approvals", "Approvals", "approvals", "payments that wait for a second person"),
            Tab("/statements", "Statements"),
        ),
    ),
    Area(
        "Ahead",
        (
            Tab("/foresight", "Load"),
            Tab("/foresight/money", "Cash"),
            Tab("/change-sets", "What if"),
        ),
    ),
)
MORE: Final = (
    Tab("/events", "Events"),
    Tab("/audit", "Audit"),
    Tab("/bulk-actions", "Bulk actions"),
    Tab("/subscriptions", "Subscriptions"),
    Tab("/settings", "Settings"),
)
"""What is needed seldom."""

TAB_BY_PATH: Final = {tab.path: (area.name, tab.path) for area in AREAS for tab in area.tabs}
"""The area and the tab of a page, by its path or the first part of it."""

NO_TAB: Final = "", ""
"""The place of a page that is in no area."""


class TenantState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the tenant's work goes on; if not: who stopped it, why, since when, what waits."""

    name: StateName = "running"
    means: str = ""
    actor: str | None = None
    reason: str = ""
    since: datetime | None = None
    until: datetime | None = None
    button: str = ""
    """The key of the button that ends this state."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown around a page."""

    states: Sequence[TenantState] = ()
    """None: the page asks for the bar once it is loaded."""
    counts: Mapping[str, MarkedCount] = msgspec.field(default_factory=dict)
    waiting: MarkedCount | None = None
    """What is due and has not begun; None where the key may not see it."""
    bulk_actions: Sequence[BulkActionView] = ()
    """The ones that have not ended, as far as the key may see them."""


def sees_whole(actor: Identity) -> bool:
    """Return whether a key may see the whole tenant, which overview and counts cover."""
    seen = actor.allows(Scope.JOBS_READ) and actor.allows(Scope.PAYMENTS_READ)
    return seen and actor.accounts is None


async def read_frame(
    services: Services, actor: Identity, now: datetime, foreseen: Callable[[Exception], bool]
) -> Frame:
    """Read what is shown around every page; a database that is away leaves its parts out."""
    try:
        halts = await services.halt.read.page(actor.tenant_id)
        found = await services.overview.get(actor.tenant_id) if sees_whole(actor) else None
        at_work = await services.bulk_action.read.list_open(actor)
    except Exception as error:  # what it means is decided where failures are known
        if not foreseen(error):
            raise
        halts, found, at_work = [], None, []
    states = [*_stopped(halts, now), *_impaired(services)]
    if found is None:
        return Frame(states=states or [TenantState()], bulk_actions=at_work)
    counts = _counts(services, found, actor)
    return Frame(
        states=states or [TenantState()],
        counts=counts,
        waiting=found.due,
        bulk_actions=at_work,
    )


def _stopped(halts: Sequence[HaltView], now: datetime) -> list[TenantState]:
    found = [
        _halt(each)
        for each in halts
        if each.from_at <= now and (each.until_at is None or now < each.until_at)
    ]
    return sorted(found, key=lambda each: each.name != "stopped")


def _halt(halt: HaltView) -> TenantState:
    if halt.kind == "kill":
        name: StateName = "stopped"
        means = "The kill switch is on: nothing starts, nothing settles, nothing is accepted."
    elif halt.mode == "drain":
        name, means = "draining", "A freeze window is open: what is due runs, nothing is accepted."
    else:
        name, means = "frozen", "A freeze window is open: nothing starts and nothing settles."
    return TenantState(
        name=name,
        means=means,
        actor=halt.set_by,
        reason=halt.note,
        since=max(halt.from_at, halt.set_at),
        until=halt.until_at,
        button="halts/release" if halt.kind == "kill" else "halts/thaw",
    )


def _impaired(services: Services) -> list[TenantState]:
    found = []
    if why := services.unwritable():
        found.append(
            TenantState(
                name="read-only",
                means="The database takes no writes: nothing starts, settles or is accepted.",
                reason=why,
            )
        )
    if (until := services.foresight.settings.quarantined_until()) is not None:
        found.append(
            TenantState(
                name="quarantine",
                means="The database was restored: what was due before waits for the operator, "
                "because it may have run already. `postdate restore resume` releases it.",
                until=until,
            )
        )
    return found


def _counts(services: Services, found: Overview, actor: Identity) -> dict[str, MarkedCount]:
    failing = {one.label for one in services.destination.read.failing(actor.tenant_id)}
    failing |= {one.label for one in found.slow.failing}
    failing |= {one.name for one in found.paused} | {one.name for one in found.disabled}
    lanes = {lane.name for lane in found.lanes if lane.paused_at or lane.overdue}
    return {
        "decisions": found.decisions,
        "approvals": found.approvals,
        "jobs": found.jobs_overdue,
        "schedules": found.schedules_set_aside,
        "lanes": MarkedCount(len(lanes)),
        "destinations": MarkedCount(len(failing)),
        "dead_letters": found.slow.jobs_failed,
        "payments": found.payments_overdue,
    }
