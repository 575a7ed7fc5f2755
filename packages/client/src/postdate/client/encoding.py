"""From Python's values to those of the API: times with their zone, durations as seconds."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import msgspec
from msgspec import UNSET

OPAQUE: Final = frozenset({"payload", "metadata", "result", "config", "value"})
"""Fields that are the caller's own: sent as they are."""


def path(template: str, given: Mapping[str, object]) -> str:
    """Fill the parts of a path; an empty one would name something else."""
    parts = {}
    for name, value in given.items():
        text = str(value)
        if not text:
            raise ValueError(f"{name} is empty")
        parts[name] = quote(text, safe="")
    return template.format(**parts)


def query(given: Mapping[str, Any]) -> dict[str, str]:
    """Write the query; what was left out is not sent."""
    return {
        name: _text(plain(value, name))
        for name, value in given.items()
        if value is not None and value is not UNSET
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def body(given: Mapping[str, Any], nulls: frozenset[str]) -> bytes:
    """Write the body; what was left out is not sent, null only where it says something."""
    sent = {
        name: value if name in OPAQUE else plain(value, name)
        for name, value in given.items()
        if value is not UNSET and (value is not None or name in nulls)
    }
    return msgspec.json.encode(sent)


def plain(value: Any, name: str) -> Any:
    """Turn a value into what JSON knows; a time without a zone is a mistake."""
    match value:
        case datetime():
            return instant(value, name)
        case timedelta():
            return seconds(value)
        case UUID():
            return str(value)
        case Enum():
            return value.value
        case Mapping():
            return {
                key: each if key in OPAQUE else plain(each, key)
                for key, each in value.items()
                if each is not UNSET
            }
        case str() | bytes():
            return value
        case Sequence() | AbstractSet():
            return [plain(each, name) for each in value]
        case _:
            return value


def instant(value: datetime, name: str) -> str:
    """Write an instant; which one a time without a zone means, nobody can say."""
    if value.utcoffset() is None:
        raise ValueError(
            f"{name} has no time zone: say datetime.now(UTC), or give the datetime a tzinfo"
        )
    return value.isoformat()


def seconds(value: float | timedelta) -> float:
    """Write a duration in seconds, whole ones as integers."""
    if not isinstance(value, timedelta):
        return value
    found = value.total_seconds()
    return int(found) if found.is_integer() else found
