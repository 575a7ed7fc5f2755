"""What was typed into a form as the body of a request, and a stored thing as what a form shows."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from postdate.console.form_field import FormField
from postdate.words.error import Code, refuse

WAS: Final = "was."
"""Before the name of a field: what was stored when the form was shown."""

Typed = Mapping[str, str]


def fill(body: dict[str, Any], one: FormField, typed: Typed, *, edit: bool, whole: bool) -> None:
    """Put what was typed into a field at its place in the body; an empty field is left out.

    An edit sends only what was changed: what another person has changed meanwhile stays. Null takes
    away what is stored, and is sent where the API asks for a value or null. A `whole` form is
    refused where a field is empty on which it insists; the API refuses what it misses itself.
    """
    text = _plain(typed.get(one.name, ""))
    if text == _was(typed, one):
        return
    if text:
        put(body, one.name, one.value(text))
    elif one.insisted:
        if whole:
            raise refuse(Code.INVALID_FIELD, f"`{one.name}` is required.", one.name)
    elif one.nullable and (edit or one.required):
        put(body, one.name, None)


def stored_values(fields: Iterable[FormField], stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields as an edit shows them first, and remember what they were."""
    known = {one.name: one.text(value_at(stored, one.name)) for one in fields}
    return known | {f"{WAS}{name}": text for name, text in known.items()}


def put(body: Any, path: str, value: Any) -> None:
    """Put a value at its path; a number stands for a place in a list."""
    parts = path.split(".")
    found = body
    for part, following in pairwise(parts):
        found = _inner(found, part, [] if following.isdecimal() else {})
    _inner(found, parts[-1], value, replace=True)


def _inner(found: Any, part: str, value: Any, *, replace: bool = False) -> Any:
    """Return what stands at one part of a path; the value is put there first if need be."""
    if isinstance(found, list):
        if len(found) == int(part):
            found.append(value)
        elif replace:
            found[int(part)] = value
        return found[int(part)]
    if replace:
        found[part] = value
    return found.setdefault(part, value)


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path, None where there is nothing."""
    found: Any = values
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _plain(text: str) -> str:
    """Return a text as it was typed; browsers end the lines of a form in their own way."""
    return text.replace("\r\n", "\n").strip()


def _was(typed: Typed, one: FormField) -> str | None:
    stored = typed.get(f"{WAS}{one.name}")
    return None if stored is None else _plain(stored)
