"""What a shell may offer for an option: names of things, asked of the server."""

from collections.abc import Callable, Iterable
from typing import Any, Final

MAX_OFFERED: Final = 100
"""How many names a shell is offered."""

OFFERED: Final = {
    "lane": ("lanes", "lane", "paused_note"),
    "schedule_id": ("schedules", "schedule_id", "name"),
    "account_id": ("accounts", "account_id", "note"),
    "from_account_id": ("accounts", "account_id", "note"),
    "to_account_id": ("accounts", "account_id", "note"),
    "calendar": ("calendars", "name", "changed_at"),
    "destination": ("destinations", "name", "type"),
    "queue": ("destinations", "name", "type"),
    "subscription_id": ("subscriptions", "subscription_id", "status"),
    "key_id": ("keys", "key_id", "note"),
    "bulk_action_id": ("bulk_actions", "bulk_action_id", "operation"),
    "change_set_id": ("change_sets", "change_set_id", "note"),
}
"""Options and parts of paths: the group that lists the things, their name, and what tells them."""


def completer(field: str) -> Callable[[object], Iterable[tuple[str, str]]] | None:
    """Return what completes a field, if the server knows its values."""
    return (lambda _: offered(*OFFERED[field])) if field in OFFERED else None


def listed_as(path: str, name: str) -> str:
    """Return what a part of a path is: `{name}` after `/destinations/` is a destination."""
    before, found, _ = path.partition(f"/{{{name}}}")
    group = before.rpartition("/")[2].replace("-", "_")
    fits = [each for each, (listed, key, _) in OFFERED.items() if (listed, key) == (group, name)]
    return fits[0] if found and fits else ""


def offered(group: str, name: str, about: str) -> Iterable[tuple[str, str]]:
    """Return what a shell may complete; nothing if the server does not answer or refuses."""
    from postdate.cli.remote import server
    from postdate.client import Client, PostdateError

    found = server()
    try:
        with Client(found.url, found.api_key, retries=0) as client:
            page: Any = getattr(client, group).list_page(limit=MAX_OFFERED)
    except PostdateError:
        return []
    return [(getattr(each, name), _text(getattr(each, about))) for each in getattr(page, group)]


def _text(value: Any) -> str:
    return "" if value is None else str(value)
