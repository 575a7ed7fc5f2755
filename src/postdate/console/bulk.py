"""Bulk actions: done step by step, each step a request of its own, with visible progress.

The first step waits some seconds, in which everything can be undone: nothing has been changed.
A step is one transaction. After the page is closed, every other page links to the unfinished run.
The progress is kept in this process, the changes in the database.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest, redirect
from postdate.core.identity import Scope
from postdate.words.error import Code, Refusal, RefusedError, refuse

STEP_ITEMS: Final = 500
"""The items of one step, which is one transaction."""

UNDO_SECONDS: Final = 10.0
"""How long a confirmed bulk action can be undone before its first step."""

PATH: Final = "/bulk/{work_id}"


@dataclass(slots=True, frozen=True)
class BulkStep:
    """The result of one step: how many items were done, and how many were skipped, and why."""

    done: int
    left: Mapping[str, int] = field(default_factory=dict)


RunStep = Callable[[PageRequest, Sequence[UUID], int], Awaitable[BulkStep]]
"""Does one step; the number is how many items went before."""


@dataclass(slots=True, kw_only=True)
class BulkRun:
    """A confirmed bulk action: its items, and how far it has come."""

    title: str
    verb: str
    noun: str
    scope: Scope
    back: str
    items: Sequence[UUID]
    do: RunStep
    size: int | None = None
    """The items of one step, where that is not `STEP_ITEMS`."""

    name: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    begins_at: float = field(default_factory=lambda: time.monotonic() + UNDO_SECONDS)
    position: int = 0
    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    refusal: Refusal | None = None
    going: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def ended(self) -> bool:
        """Return whether it has finished or was stopped."""
        return self.stopped or self.position >= len(self.items)

    @property
    def undo_seconds(self) -> float:
        """Return for how long it can still be undone: 0 once it has begun."""
        return 0.0 if self.position or self.ended else max(0.0, self.begins_at - time.monotonic())

    @property
    def address(self) -> str:
        """Return the address of its progress page."""
        return PATH.format(work_id=self.name)

    @property
    def summary(self) -> str:
        """Return in words what was done, skipped, and not processed."""
        words = [f"{self.done:,} of {len(self.items):,} {self.noun}s {self.verb}."]
        if self.left:
            parts = [f"{many:,} {why}" for why, many in sorted(self.left.items())]
            words.append(f"Skipped: {', '.join(parts)}.")
        if self.stopped and self.position < len(self.items):
            words.append(f"Not processed: {len(self.items) - self.position:,}.")
        return " ".join(words)

    async def step(self, request: PageRequest) -> None:
        """Do the next step; a refusal is kept for display, and the step can be repeated."""
        async with self.going:
            if self.ended or (self.undo_seconds and "now" not in request.form):
                return
            # The action that began it has decided about keys limited to accounts.
            request.require(self.scope, "served")
            piece = self.items[self.position : self.position + (self.size or STEP_ITEMS)]
            try:
                request.check_halt()
                outcome = await self.do(request, piece, self.position)
            except RefusedError as error:
                self.refusal = error.refusal
                return
            self.refusal = None
            self.position += len(piece)
            self.done += outcome.done
            self.left.update(outcome.left)


async def begin(request: PageRequest, work: BulkRun) -> Response:
    """Wait for the first step on the progress page, where it can be undone."""
    await work.step(request)
    if work.refusal is not None and work.position == 0:
        raise RefusedError(work.refusal)
    if work.ended:
        return request.finish(work.summary, work.back)
    request.session.keep_work(work.name, work)
    return redirect(work.address)


def _find(request: PageRequest) -> BulkRun:
    work = request.session.work(request.param("work_id"))
    if not isinstance(work, BulkRun):
        detail = "This bulk action is no longer known here. See the audit for what it did."
        raise refuse(Code.NOT_FOUND, detail)
    return work


async def work_page(request: PageRequest) -> Response:
    """Show the progress; the page requests the next step by itself."""
    return request.render("work.html", work=_find(request))


async def work_step(request: PageRequest) -> Response:
    """Do one step, and show the progress."""
    work = _find(request)
    await work.step(request)
    return _seen(request, work)


async def work_stop(request: PageRequest) -> Response:
    """Stop; what is done stays done, and before the first step that is nothing."""
    work = _find(request)
    async with work.going:
        work.stopped = not work.ended or work.stopped
    if not work.position:
        return request.finish("Undone: nothing was changed.", work.back)
    return _seen(request, work)


def _seen(request: PageRequest, work: BulkRun) -> Response:
    if request.http.headers.get("hx-request"):
        return request.render("_work.html", work=work)
    return redirect(work.address)


PAGES: Final = (ConsolePage(PATH, work_page, limited="filtered"),)
STEPS: Final = ((PATH + "/step", work_step), (PATH + "/stop", work_stop))
