"""Dry runs: what a confirmation would do, shown before it is done, and kept as its plan."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from postdate.console.page_request import PageRequest
from postdate.words.error import Code, refuse

TYPE_COUNT_ABOVE: Final = 1000
"""Above this many items the person must type the count to confirm."""


@dataclass(slots=True, frozen=True, kw_only=True)
class DryRun:
    """What would be done: facts, a few rows of it, and what a confirmation carries out.

    A confirmation sends `body`, and a bulk run touches `items` and nothing else, whatever has
    changed meanwhile.
    """

    count: int
    noun: str
    facts: list[tuple[str, str]]
    head: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    money: bool = False
    body: Mapping[str, Any] | None = None
    """The request, where it is not the one that was typed."""
    items: Sequence[UUID] = ()
    seen: Mapping[UUID, Any] = field(default_factory=dict)
    """How the items stood when they were shown."""

    @property
    def typed(self) -> bool:
        """Return whether the count must be typed: it is many, or it is money."""
        return self.count > TYPE_COUNT_ABOVE or (self.money and self.count > 1)

    def check_typed(self, text: str) -> None:
        """Refuse a confirmation in which the count was not typed, where it must be."""
        if self.typed and text.replace(",", "").strip() != str(self.count):
            detail = f"Type the number of {self.noun}s to confirm: {self.count:,}."
            raise refuse(Code.INVALID_FIELD, detail, "typed")


Rehearse = Callable[[PageRequest, Mapping[str, Any]], Awaitable[DryRun]]
"""Find out what a request would do, from its body."""


def kept_dry_run(request: PageRequest) -> DryRun:
    """Return the dry run that a form confirms."""
    plan = request.session.plan(request.form.get("once", ""))
    if not isinstance(plan, DryRun):
        raise refuse(Code.CONFLICT, "This dry run has expired. Run it again.")
    return plan


def selected_ids(request: PageRequest, name: str) -> list[UUID]:
    """Return what was selected in a list, as the address gives it."""
    try:
        return [UUID(text) for text in request.http.query_params.getlist(name)]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, f"Select {name} by their ids.", name) from None
