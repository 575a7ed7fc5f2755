"""Write the reference of error codes from the one table that defines them."""

from typing import NamedTuple

from postdate.model.error import EXPLANATIONS


class ErrorEntry(NamedTuple):
    """One code as the reference shows it."""

    code: str
    status: int
    title: str
    advice: str


def error_entries() -> list[ErrorEntry]:
    """List every code in the order of the table."""
    return [ErrorEntry(code, *explanation) for code, explanation in EXPLANATIONS.items()]


def errors_markdown() -> str:
    """Write the sections of `docs/reference/errors.md`."""
    return "\n\n".join(
        f"## {entry.code}\n\n`{entry.status}` {entry.title}. {entry.advice}"
        for entry in error_entries()
    )
