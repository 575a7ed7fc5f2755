"""Columns of a set on their way to unnest.

Every element of an array costs the driver more than the row costs the server: a column that is
NULL throughout goes as an empty array, which unnest pads with NULL; one value for all rows goes as
an array of that one, which the statement repeats with coalesce.
"""

from collections.abc import Sequence
from typing import Any


def compact(column: Sequence[Any]) -> Sequence[Any]:
    """Shorten a column of one value to that value; the statement must repeat it."""
    return column[:1] if column and column.count(column[0]) == len(column) else column


def filled(column: Sequence[Any]) -> Sequence[Any]:
    """Leave out a column that holds nothing."""
    return () if column.count(None) == len(column) else column
