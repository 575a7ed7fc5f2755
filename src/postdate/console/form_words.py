"""What the fields of forms offer in the words of people: choices, and names to pick from."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final
from zoneinfo import available_timezones

from postdate.console.form_field import FormField
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope

MAX_OFFERED: Final = 100
"""The most names that a field offers; every other one can be typed."""

CHOICE_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "type": {
        "webhook": "call a URL",
        "queue": "publish to a queue",
        "worker": "hand it to a worker",
    },
    "gap": {
        "skip": "leave the run out",
        "shift_forward": "run later, when the clock has moved on",
        "shift_back": "run earlier, before the clock moves",
    },
    "repeated": {
        "first": "run the first time",
        "second": "run the second time",
        "both": "run both times",
    },
    "roll": {
        "none": "leave the run out",
        "following": "run on the next open day",
        "modified_following": "run on the next open day of the month, else on the one before",
        "preceding": "run on the open day before",
    },
    "overlap": {
        "allow": "run both",
        "skip": "leave the new run out",
        "buffer_one": "run it when the other has ended",
        "cancel_running": "cancel the run that is open",
    },
    "misfire.policy": {
        "fire_once": "run once for all that were missed",
        "fire_all": "run each that was missed",
        "skip": "leave out what was missed",
    },
    "funding": {
        "hold": "hold the amount now",
        "at_execution": "take it when the payment is due",
    },
    "on_conflict": {
        "keep": "keep the job that waits",
        "replace": "replace the job that waits",
        "debounce": "move the job that waits to the new time",
    },
    "mode": {
        "hold": "due work waits until the end",
        "drain": "due work runs, new work is refused",
    },
}
"""The choices of a field in words, by the end of its path."""

_KINDS: Final[Mapping[str, str]] = {
    "account_id": "accounts",
    "from_account_id": "accounts",
    "to_account_id": "accounts",
    "destination.name": "destinations",
    "lane": "lanes",
    "calendar": "calendars",
    "timezone": "zones",
}
"""What the names of a field are, by the end of its path."""


def words_of(path: str, choice: str) -> str:
    """Return a choice in words; the value itself where there are none."""
    for end, words in CHOICE_WORDS.items():
        if path == end or path.endswith(f".{end}"):
            return words.get(choice, choice)
    return choice


def picks(path: str) -> str:
    """Return what kind of name a field takes, empty for any other field."""
    ends = (kind for end, kind in _KINDS.items() if path == end or path.endswith(f".{end}"))
    return next(ends, "")


async def offers(request: PageRequest, fields: Iterable[FormField]) -> dict[str, list[str]]:
    """Return the names that the fields of a form offer, by their kind."""
    wanted = {kind for one in fields if one.kind == "text" and (kind := picks(one.name))}
    return {kind: await _READERS[kind](request) for kind in sorted(wanted)}


async def _accounts(request: PageRequest) -> list[str]:
    if not request.actor.allows(Scope.PAYMENTS_READ):
        return []
    found, _ = await request.services.account.read.page(request.actor, "", MAX_OFFERED)
    return [each.account_id for each in found]


async def _destinations(request: PageRequest) -> list[str]:
    if not _sees_jobs(request):
        return []
    read = request.services.destination.read
    found, _ = await read.page(request.actor.tenant_id, "", MAX_OFFERED)
    return [each.name for each in found]


async def _lanes(request: PageRequest) -> list[str]:
    if not _sees_jobs(request):
        return []
    return await request.services.search.lanes_like(request.actor.tenant_id, "", MAX_OFFERED)


async def _calendars(request: PageRequest) -> list[str]:
    read = request.services.calendar.read
    found, _ = await read.page(request.actor.tenant_id, "", MAX_OFFERED)
    return [each.name for each in found]


async def _zones(_: PageRequest) -> list[str]:
    return sorted(available_timezones())


def _sees_jobs(request: PageRequest) -> bool:
    return request.actor.allows(Scope.JOBS_READ) and request.actor.accounts is None


_READERS: Final[Mapping[str, Callable[[PageRequest], Awaitable[list[str]]]]] = {
    "accounts": _accounts,
    "destinations": _destinations,
    "lanes": _lanes,
    "calendars": _calendars,
    "zones": _zones,
}
