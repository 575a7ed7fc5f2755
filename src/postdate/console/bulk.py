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
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.operation import BodyFields, call_endpoint, check_halt
from postdate.console.page_request import ConsolePage, PageRequest, redirect
from postdate.console.shown_request import path_names
from postdate.http.endpoint import AnyEndpoint
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


@dataclass(slots=True, kw_only=True)
class BulkRun:
    """A confirmed bulk action: its items, and how far it has come."""

    of: "Bulk"
    endpoint: AnyEndpoint
    """The operation that is done to the items."""
    body: BodyFields
    back: str
    items: Sequence[UUID]
    seen: Mapping[UUID, Any]

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
        words = [f"{self.done:,} of {len(self.items):,} {self.of.noun}s {self.of.verb}."]
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
            request.require(self.endpoint.scope, self.endpoint.limited)
            piece = self.items[self.position : self.position + min(self.of.size, STEP_ITEMS)]
            try:
                check_halt(request, self.endpoint)
                outcome = await self.of.step(request, self, piece)
            except RefusedError as error:
                self.refusal = error.refusal
                return
            self.refusal = None
            self.position += len(piece)
            self.done += outcome.done
            self.left.update(outcome.left)


RunStep = Callable[[PageRequest, BulkRun, Sequence[UUID]], Awaitable[BulkStep]]


async def call_each(request: PageRequest, run: BulkRun, piece: Sequence[UUID]) -> BulkStep:
    """Carry the operation out for one item after the other, each in a transaction of its own."""
    [name] = path_names(run.endpoint)
    left: Counter[str] = Counter()
    for item in piece:
        try:
            await call_endpoint(request, run.endpoint, run.body, path={name: item})
        except RefusedError as error:
            left[str(error.refusal.code)] += 1
    return BulkStep(len(piece) - left.total(), left)


@dataclass(slots=True, frozen=True, kw_only=True)
class Bulk:
    """How a button is carried out for many items: in words, and step by step."""

    title: str
    verb: str
    noun: str
    step: RunStep = call_each
    size: int = STEP_ITEMS
    """The most items of one step."""


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
