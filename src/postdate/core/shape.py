"""Make what is shown from what is stored: a field of the same name has the same value."""

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class Spec(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base of what is asked for: the body of a request and the argument of a change."""


class View(msgspec.Struct, frozen=True):
    """The base of what is shown: the row of a query, in the order of its columns."""


def shaped(kind: type[S], row: object, **derived: Any) -> S:
    """Fill a shape from the fields of a row of the same name; `derived` gives the others."""
    # `derived` is a dict of this call: a second one, and merging both, took a fifth of the time.
    for name in kind.__struct_fields__:
        if name not in derived:
            derived[name] = getattr(row, name)
    return kind(**derived)
