"""One problem of the overview: how bad it is, what it says, and which page helps."""

from collections.abc import Sequence
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
    kind: str = ""
    """What is grouped with others of its kind."""
    waits: int = 0
    """How many jobs or payments it holds up."""
    runbook: str = ""
    """The page of the documentation, under `docs/operate/runbooks/`."""


_GROUPS: Final = {
    "failing": "{many} destinations fail",
    "disabled": "{many} destinations are disabled",
    "late": "{many} lanes are late",
    "unknown": "Jobs of {many} lanes have an unknown outcome",
    "paused": "{many} lanes and destinations are paused",
    "subscription": "{many} subscriptions are behind or paused",
}
"""What a group of several problems of one kind says."""


class ProblemGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Problems of one kind, the worst first."""

    problems: list[OverviewProblem]

    @property
    def severity(self) -> Severity:
        """Return how bad the worst is."""
        return min(each.severity for each in self.problems)

    @property
    def waits(self) -> int:
        """Count what all of them hold up."""
        return sum(each.waits for each in self.problems)

    @property
    def text(self) -> str:
        """Say what is wrong in one line."""
        if len(self.problems) == 1:
            return self.problems[0].text
        text = _GROUPS[self.problems[0].kind].format(many=len(self.problems))
        return f"{text}, {count(self.waits, 'job')} wait." if self.waits else f"{text}."


def grouped(problems: Sequence[OverviewProblem]) -> list[ProblemGroup]:
    """Group problems of one kind and severity; money comes first, then what holds up the most."""
    groups: dict[object, list[OverviewProblem]] = {}
    for place, each in enumerate(problems):
        groups.setdefault((each.kind, each.severity) if each.kind else place, []).append(each)
    for members in groups.values():
        members.sort(key=lambda each: -each.waits)
    found = [ProblemGroup(problems=members) for members in groups.values()]
    return sorted(found, key=_rank)


def _rank(group: ProblemGroup) -> tuple[bool, bool, int, Severity]:
    severity = group.severity
    return severity is not Severity.MONEY, severity is Severity.NOTE, -group.waits, severity


def reason_sentence(note: str | None) -> str:
    """Format a note as a sentence."""
    return f"Reason: {note}{'' if note.endswith(('.', '!', '?')) else '.'}" if note else ""


def count(many: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"
