"""Compare the data of every event that the server records in a test with its declaration."""

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from types import FrameType
from typing import Any, Final
from uuid import UUID

from postdate.audit.spec import STAMP
from postdate.event.spec.data import EVENT_FIELDS
from postdate.event.spec.types import EVENT_TYPES
from postdate.event.store import event as store

WRONG: Final[list[str]] = []
"""What was found in the test that runs."""

KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "true": lambda value: value is True,
    "text": lambda value: isinstance(value, str),
    "whole number": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "instant": lambda value: isinstance(value, datetime) or _parses(_instant, value),
    "id": lambda value: isinstance(value, UUID) or _parses(UUID, value),
    "list": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "anything": lambda _: True,
}


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text} has no zone")
    return at


def _parses(parse: Callable[[str], object], value: object) -> bool:
    try:
        parse(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        return False
    return True


def wrong(kind: str, data: Mapping[str, Any]) -> list[str]:
    """Say in what the data of an event differs from what is declared."""
    declared = EVENT_TYPES[kind]
    given = data.keys() - {STAMP}
    found = [f"{kind} has no {name}" for name in sorted(declared.always - given)]
    found += [f"{kind} declares no {name}" for name in sorted(given - declared.possible)]
    for name in sorted(given & declared.possible):
        if not any(KINDS[each](data[name]) for each in EVENT_FIELDS[name].kinds):
            found.append(f"{kind}: {name} is {data[name]!r}")
    return found


def watch() -> None:
    """Look at each event that is recorded from now on; not at those that a test makes up."""
    original = store._data

    @wraps(original)
    def watched(event: store.NewEvent) -> store.EventData | None:
        if event.type in EVENT_TYPES and _is_of_server(sys._getframe(1)):
            WRONG.extend(wrong(event.type, event.data or {}))
        return original(event)

    store._data = watched


def _is_of_server(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") == store.__name__:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("postdate.")
