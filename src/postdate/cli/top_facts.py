"""What `postdate top` asks the API beside metrics: failures, money, destinations, with one key."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from postdate.client import AsyncClient, ProblemError

FAILED_HOURS: Final = 24
MAX_ITEMS: Final = 100
"""How many failed jobs, payments and approvals are read: a count that reaches it is a minimum."""

MAX_SHOWN: Final = 8

ListedItem = Mapping[str, Any]


class FailureLine(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that failed with one error at one destination."""

    destination: str
    code: str
    count: int


class MoneyLine(msgspec.Struct, frozen=True, kw_only=True):
    """Payments in one state, with what they come to by currency."""

    what: str
    count: int
    at_least: bool
    amounts: dict[str, int]


class DestinationLine(msgspec.Struct, frozen=True, kw_only=True):
    """A destination that does not deliver as usual."""

    name: str
    status: str
    why: str


class TenantFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the key's tenant has; an empty list is also what the key may not read."""

    failures: list[FailureLine] = []
    failures_at_least: bool = False
    money: list[MoneyLine] = []
    destinations: list[DestinationLine] = []


async def read_facts(client: AsyncClient, now: datetime) -> TenantFacts:
    """Read the facts; what the key may not read is left out."""
    since = (now - timedelta(hours=FAILED_HOURS)).astimezone(UTC).isoformat()
    failed, more = await _list(client, "/dead-letters", "jobs", due_after=since)
    destinations, _ = await _list(client, "/destinations", "destinations")
    return TenantFacts(
        failures=failure_lines(failed),
        failures_at_least=more,
        money=[
            money_line("wait for approval", *await _list(client, "/approvals", "payments")),
            money_line("broken", *await _list(client, "/payments", "payments", broken="true")),
            money_line(
                f"failed, {FAILED_HOURS} h",
                *await _list(client, "/payments", "payments", status="FAILED", from_time=since),
            ),
        ],
        destinations=destination_lines(destinations),
    )


async def _list(
    client: AsyncClient, path: str, name: str, **query: str
) -> tuple[list[ListedItem], bool]:
    """Return the first items of a list, and whether there may be more."""
    try:
        found = await client.call("GET", path, query={"limit": MAX_ITEMS, **query})
    except ProblemError:
        return [], False
    return found[name], found["next_cursor"] is not None


def failure_lines(jobs: Iterable[ListedItem]) -> list[FailureLine]:
    """Count failed jobs by destination and error, the most first."""
    counted = Counter((target_of(job["destination"]), job["code"] or "unknown") for job in jobs)
    return [
        FailureLine(destination=target, code=code, count=count)
        for (target, code), count in counted.most_common(MAX_SHOWN)
    ]


def target_of(destination: ListedItem) -> str:
    """Return what people call a destination: its name, its host, or else its type."""
    if destination.get("name"):
        return str(destination["name"])
    address = str(destination.get("url") or "")
    return address.partition("://")[2].partition("/")[0] or str(destination["type"])


def money_line(what: str, payments: Iterable[ListedItem], more: bool) -> MoneyLine:  # noqa: FBT001
    """Count payments and add up their amounts by currency."""
    amounts: Counter[str] = Counter()
    count = 0
    for payment in payments:
        count += 1
        amounts[payment.get("currency") or ""] += payment["amount"]
    return MoneyLine(what=what, count=count, at_least=more, amounts=dict(sorted(amounts.items())))


def destination_lines(destinations: Iterable[ListedItem]) -> list[DestinationLine]:
    """List the destinations that do not deliver as usual, and why."""
    return [
        DestinationLine(name=each["name"], status=each["status"].lower(), why=_why(each))
        for each in destinations
        if each["status"] != "ACTIVE"
    ]


def _why(destination: ListedItem) -> str:
    reason = destination.get("disabled_reason") or destination.get("paused_reason")
    trouble = destination.get("trouble") or {}
    since = str(destination.get("failing_since") or "")
    quiet = f"no call has succeeded since {since[:10]} {since[11:16]} UTC" if since else ""
    return str(reason or trouble.get("error") or quiet)
