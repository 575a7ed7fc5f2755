"""Send a set of rows as columns: one array each, made from the one list of the columns.

The list is a composite type of SQL, whose attributes are arrays, and the fields of the struct that
Python fills; a test compares the two. Calls are made from that list, so no position is counted.

Encoding an array element costs the driver more than the row costs the server. So a column that is
entirely NULL is sent as an empty array, which unnest pads with NULL, and a column with one value
for all rows is sent as an array of one element, which the statement repeats with coalesce.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any

from msgspec.structs import astuple


def compact(column: Sequence[Any]) -> Sequence[Any]:
    """Shorten a column whose values are all equal to one element; the statement must repeat it."""
    return column[:1] if column and column.count(column[0]) == len(column) else column


def filled(column: Sequence[Any]) -> Sequence[Any]:
    """Return an empty column if every value is None."""
    if column and column[0] is not None:
        return column
    return () if column.count(None) == len(column) else column


class Columns:
    """The columns of a composite type of SQL, in its order: the fields of what is sent."""

    def __init__(
        self,
        name: str,
        fields: Iterable[str],
        repeated: Collection[str] = (),
        row: Callable[[Any], Iterable[Any]] | None = astuple,
        order: Callable[[Any], Any] | None = None,
    ) -> None:
        """Name the type, its columns, and the columns whose single value SQL repeats for all rows.

        `row` makes the values of a struct, in the order of the columns; None stands for what has
        an array for each column already. `order` is the order of inserting.
        """
        self.name = name
        self.fields = tuple(fields)
        self._row = row
        self._shorten = [compact if field in repeated else filled for field in self.fields]
        self._order = order

    def arrays(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        """Return an array for each column."""
        if not rows:
            return [()] * len(self.fields)
        ordered = rows if self._order is None else sorted(rows, key=self._order)
        columns = ordered if self._row is None else zip(*map(self._row, ordered), strict=True)
        return [short(column) for short, column in zip(self._shorten, columns, strict=True)]


def call(function: str, *arguments: Columns | str) -> str:
    """Return the statement that calls a function.

    Columns take a parameter for each array; a name stands for one parameter.
    """
    numbers = count(1)
    given = [
        f"ROW({', '.join(f'${next(numbers)}' for _ in each.fields)})::{each.name}"
        if isinstance(each, Columns)
        else f"${next(numbers)}"
        for each in arguments
    ]
    return f"SELECT {function}({', '.join(given)})"
