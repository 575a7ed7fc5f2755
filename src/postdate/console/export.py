"""Files of a list: exactly what its filter finds, streamed page by page, bounded."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse

from postdate.console.page_request import HEADERS, PageRequest
from postdate.core.csv_text import MoneyCell, csv_line
from postdate.core.money import MONEY_FIELDS
from postdate.words.error import Code, refuse

P = TypeVar("P")

PAGE_ROWS: Final = 500
MAX_ROWS: Final = 100_000
"""The most rows of one file; a narrower filter gives the rest."""

MAX_PAGES: Final = 2000
"""The most pages of one file: a filter that matches hardly anything finds short ones."""

CUT_OFF: Final = "cut off here: more may match, narrow the filter"
MEDIA_TYPES: Final = {"csv": "text/csv", "jsonl": "application/x-ndjson"}

ReadPage = Callable[[P | None, int], Awaitable[tuple[Sequence[msgspec.Struct], P | None]]]
"""Reads up to a number of rows from a position on; returns them and the next position."""


ExportColumns = Mapping[str, Callable[[Any], object]]
"""The columns of a CSV file by their names, and how each is written."""


def as_it_is(value: object) -> object:
    """Write a value as it is."""
    return value


async def send_file(
    request: PageRequest, name: str, columns: ExportColumns, read: ReadPage[P]
) -> Response:
    """Stream a list as the file that the path asks for."""
    kind: str = request.param("kind")
    if kind not in MEDIA_TYPES:
        raise refuse(Code.NOT_FOUND, "There is no such page.")
    chunks = _chunks(_Csv(columns) if kind == "csv" else _JsonLines(), read)
    # The first page is read before the answer begins: a refusal is still an answer of its own.
    first = await anext(chunks)
    file = f"{name}-{request.now:%Y%m%dT%H%M%SZ}.{kind}"
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{file}"'}
    return StreamingResponse(_joined(first, chunks), media_type=MEDIA_TYPES[kind], headers=headers)


async def _joined(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for chunk in rest:
        yield chunk


async def _chunks(write: "_Csv | _JsonLines", read: ReadPage[P]) -> AsyncIterator[str]:
    position: P | None = None
    left, pages = MAX_ROWS, 0
    head = write.head()
    while True:
        found, position = await read(position, min(PAGE_ROWS, left))
        left -= len(found)
        pages += 1
        yield head + "".join(map(write.row, found))
        head = ""
        if position is None:
            return
        if left <= 0 or pages >= MAX_PAGES:
            yield write.cut_off()
            return


class _Csv:
    """Writes rows as CSV, with the names of the columns first."""

    def __init__(self, columns: ExportColumns) -> None:
        self._columns = columns

    def head(self) -> str:
        return csv_line(self._columns)

    def row(self, found: msgspec.Struct) -> str:
        currency = getattr(found, "currency", None)
        values = {name: write(getattr(found, name)) for name, write in self._columns.items()}
        return csv_line(
            MoneyCell(value, currency) if name in MONEY_FIELDS and isinstance(value, int) else value
            for name, value in values.items()
        )

    def cut_off(self) -> str:
        return csv_line([f"# {CUT_OFF}"])


class _JsonLines:
    """Writes each row as the API shows it, one a line."""

    def head(self) -> str:
        return ""

    def row(self, found: msgspec.Struct) -> str:
        return msgspec.json.encode(found).decode() + "\n"

    def cut_off(self) -> str:
        return msgspec.json.encode({"cut_off": CUT_OFF}).decode() + "\n"
