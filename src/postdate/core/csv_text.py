"""Lines of CSV for spreadsheets: numbers stay numbers, and no text is taken for a formula."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from postdate.core.money import money_number

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


class MoneyCell(msgspec.Struct, frozen=True):
    """An amount, written as a number of units."""

    amount: int
    currency: str | None


def csv_line(values: Iterable[object]) -> str:
    """Write one line, with its end."""
    text = io.StringIO()
    csv.writer(text).writerow([csv_cell(value) for value in values])
    return text.getvalue()


def csv_cell(value: object) -> str:
    """Write a value; a text that a spreadsheet would take for a formula is quoted."""
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds")
        case MoneyCell(amount, currency):
            return money_number(amount, currency)
        case int() | float():
            return str(value)
        case dict():
            text = msgspec.json.encode(value).decode()
        case _:
            text = str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
