"""One field of a form: how it is typed in, how it is read, and how a stored value is written."""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from postdate.console.page_request import instant, scalar
from postdate.core import any_json
from postdate.http.limit import RequestLimits
from postdate.http.request_reader import check_depth
from postdate.words.error import Code, refuse

FieldKind = Literal[
    "text", "whole", "decimal", "scalar", "datetime-local", "choice", "lines", "json", "checkbox"
]
"""How a field is typed in: `whole` and `decimal` are numbers, `lines` one value each.

A `scalar` is a number or a flag where it can be read as one, else text.
"""


@dataclass(slots=True, frozen=True)
class FieldSpec:
    """A field that a form asks for, and what its type cannot know of it."""

    name: str
    """Its path in the body, with dots between the parts, 0 for the first of a list."""
    label: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    """A person must give it, although the API would do without."""
    late: bool = False
    """Asked for after the dry run."""
    folded: bool = False
    """Seldom needed: it stands under *More options*."""
    only: tuple[str, ...] = ()
    """Values of the form's choice of what should happen with which alone it is shown."""


@dataclass(slots=True, frozen=True, kw_only=True)
class FormField:
    """One field; `name` is its path in the body, with dots between the parts, 0 in a list."""

    name: str
    label: str
    kind: FieldKind = "text"
    hint: str = ""
    example: str = ""
    required: bool = False
    insisted: bool = False
    """The form demands it, although the API would do without."""
    choices: tuple[str, ...] = ()
    nullable: bool = False
    max_length: int | None = None
    money: bool = False
    """An amount: where the form knows a currency, it is typed in units."""
    secret: bool = False
    """It is hidden while it is typed."""
    late: bool = False
    folded: bool = False
    only: tuple[str, ...] = ()

    def value(self, text: str) -> Any:
        """Return what was typed, as JSON; the API refuses what is no such value."""
        return _READERS.get(self.kind, _as_typed)(text, self.name)

    def text(self, value: Any) -> str:
        """Write a stored value as the form shows it."""
        if value is None:
            return ""
        match self.kind:
            case "lines":
                return "\n".join(map(str, value))
            case "json":
                return json.dumps(value, indent=2, ensure_ascii=False)
            case "datetime-local":
                at = datetime.fromisoformat(str(value)).astimezone(UTC)
                return at.strftime("%Y-%m-%dT%H:%M:%S")
            case _:
                return str(value)


def _as_typed(text: str, _: str) -> str:
    return text


_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")
"""A number as JSON writes it: what else `int` takes, such as 1_0, the API would refuse."""


def _whole(text: str, _: str) -> int | str:
    return int(text) if _WHOLE.fullmatch(text) else text


def _decimal(text: str, name: str) -> float | str:
    if _WHOLE.fullmatch(text):
        return _whole(text, name)
    try:
        number = float(text)
    except ValueError:
        return text
    # JSON has no infinity: it would be sent as null, which takes a limit away.
    return number if math.isfinite(number) else text


def _instant(text: str, name: str) -> str | None:
    at = instant(text, name)
    return None if at is None else at.isoformat()


def _lines(text: str, _: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _json(text: str, name: str) -> Any:
    check_depth(text.encode(), RequestLimits().json_depth)
    try:
        return any_json.decode(text)
    except msgspec.DecodeError as error:
        raise refuse(Code.INVALID_FIELD, f"This is not JSON: {error}.", name) from None


_READERS: Final[Mapping[FieldKind, Callable[[str, str], Any]]] = {
    "whole": _whole,
    "decimal": _decimal,
    "scalar": lambda text, _: scalar(text),
    "datetime-local": _instant,
    "lines": _lines,
    "json": _json,
    "checkbox": lambda *_: True,
}
