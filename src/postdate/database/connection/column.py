"""Prepare columns of a set for unnest.

Encoding an array element costs the driver more than the row costs the server. So a column that is
entirely NULL is sent as an empty array, which unnest pads with NULL, and a column with one value
for all rows is sent as an array of one element, which the statement repeats with coalesce.
"""

from collections.abc import Sequence
from typing import Any


def compact(column: Sequence[Any]) -> Sequence[Any]:
    """Shorten a column whose values are all equal to one element; the statement must repeat it."""
    return column[:1] if column and column.count(column[0]) == len(column) else column


def filled(column: Sequence[Any]) -> Sequence[Any]:
    """Return an empty column if every value is None."""
    return () if column.count(None) == len(column) else column
