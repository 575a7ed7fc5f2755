"""One problem of the overview: how bad it is, what it says, and which page helps."""

from datetime import datetime
from enum import IntEnum
from typing import Final

import msgspec

MAX_NAMED: Final = 10
"""Most problems of one kind that are named one by one."""


class Severity(IntEnum):
    """How bad it is: the smaller the worse."""

    MONEY = 0
    """Money is wrong, or does not move when it should."""
    STOPPED = 1
    """Work that is due does not happen, and nothing but a person will change that."""
    FAILING = 2
    """Work is late or fails, and goes on by itself."""
    NOTE = 3
    """Set on purpose, by a person."""

    @property
    def label(self) -> str:
        """Write it as the console shows it."""
        return self.name.capitalize()


class OverviewProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and the page that helps."""

    severity: Severity
    text: str
    link: str
    help: str
    """What the link is called: what one does about it."""
    cause: str = ""
    actor: str | None = None
    """Who wanted it so."""
    since: datetime | None = None
    holds_up: str = ""
    runbook: str = ""
    """The page of the documentation, under `docs/operate/runbooks/`."""


def reason_sentence(note: str | None) -> str:
    """Format a note as a sentence."""
    return f"Reason: {note}{'' if note.endswith(('.', '!', '?')) else '.'}" if note else ""


def count(many: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"
