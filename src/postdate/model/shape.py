"""Make what is shown from what is stored: a field of the same name has the same value."""

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def shaped(kind: type[S], row: object, **derived: Any) -> S:
    """Fill a shape from the fields of a row of the same name; `derived` gives the others."""
    same = {name: getattr(row, name) for name in kind.__struct_fields__ if name not in derived}
    return kind(**same, **derived)
