"""Create what is missing, and say where what exists differs from what was asked for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET

from postdate.client import encoding

M = TypeVar("M")


class Ensured(msgspec.Struct, Generic[M], frozen=True, kw_only=True):
    """What exists now; `differs` has the fields that are otherwise than asked: (asked, found)."""

    item: M
    created: bool
    differs: dict[str, tuple[Any, Any]] = msgspec.field(default_factory=dict)


def compared(found: M, asked: Mapping[str, Any]) -> Ensured[M]:
    """Compare what was found with what was asked for, field by field."""
    known = msgspec.to_builtins(found)
    differs: dict[str, tuple[Any, Any]] = {}
    for name, value in said(asked).items():
        wanted = msgspec.to_builtins(value)
        if name in known and not _fits(wanted, known[name]):
            differs[name] = (wanted, known[name])
    return Ensured(item=found, created=False, differs=differs)


def said(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say something, in the values of JSON."""
    return {
        name: value if name in encoding.OPAQUE else encoding.plain(value, name)
        for name, value in asked.items()
        if value is not None and value is not UNSET
    }


def _fits(wanted: Any, found: Any) -> bool:
    """Return whether all that is wanted is found; what was left out may be anything."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(_fits(each, found.get(name)) for name, each in wanted.items())
    if isinstance(wanted, str) and isinstance(found, str):
        return wanted == found or _instant(wanted) == _instant(found) is not None
    return bool(wanted == found)


def _instant(text: str) -> datetime | None:
    try:
        return msgspec.convert(text, type=datetime)
    except msgspec.ValidationError:
        return None
