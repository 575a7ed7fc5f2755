"""Work on many things: done piece by piece, each a request of its own, so that it can be watched.

A piece is one transaction. Whoever closes the page finds the work again on the next one, and goes
on; whoever stops it is told what was done. The process remembers where it is, the database what.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest, redirect
from postdate.model.error import Code, Refusal, RefusedError, refuse
from postdate.model.tenant.identity import Scope

STEP_ITEMS: Final = 500
"""Things of one piece: what one transaction changes."""

PATH: Final = "/bulk/{work_id}"


@dataclass(slots=True, frozen=True)
class BulkStep:
    """What became of one piece: how many were done, and how many were left alone, and why."""

    done: int
    left: Mapping[str, int] = field(default_factory=dict)


RunStep = Callable[[PageRequest, Sequence[UUID], int], Awaitable[BulkStep]]
"""Does one piece; the number says how many things went before."""


@dataclass(slots=True, kw_only=True)
class BulkRun:
    """What a confirmation set going: exactly these things, and how far it is."""

    title: str
    verb: str
    noun: str
    scope: Scope
    back: str
    items: Sequence[UUID]
    do: RunStep
    size: int | None = None
    """How many things are one piece, where that is not `STEP_ITEMS`."""

    name: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    position: int = 0
    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    stopped: bool = False
    refusal: Refusal | None = None
    going: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def ended(self) -> bool:
        """Say whether nothing of it is to come."""
        return self.stopped or self.position >= len(self.items)

    @property
    def address(self) -> str:
        """Give the page on which it is watched."""
        return PATH.format(work_id=self.name)

    @property
    def summary(self) -> str:
        """Say in words what was done, what was left alone, and what was not touched."""
        words = [f"{self.done:,} of {len(self.items):,} {self.noun}s {self.verb}."]
        if self.left:
            parts = [f"{many:,} {why}" for why, many in sorted(self.left.items())]
            words.append(f"Skipped: {', '.join(parts)}.")
        if self.stopped and self.position < len(self.items):
            words.append(f"Not processed: {len(self.items) - self.position:,}.")
        return " ".join(words)

    async def step(self, request: PageRequest) -> None:
        """Do the next piece. What is refused is told, and can be tried again."""
        async with self.going:
            if self.ended:
                return
            request.require(self.scope)
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
    """Do the first piece; what is not done with it goes on where it can be watched."""
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
    """Show how far it is; the page asks for the next piece by itself."""
    return request.render("work.html", work=_find(request))


async def work_step(request: PageRequest) -> Response:
    """Do one piece, and show how far it is then."""
    work = _find(request)
    await work.step(request)
    return _seen(request, work)


async def work_stop(request: PageRequest) -> Response:
    """Let what is done be done, and leave the rest."""
    work = _find(request)
    async with work.going:
        work.stopped = not work.ended or work.stopped
    return _seen(request, work)


def _seen(request: PageRequest, work: BulkRun) -> Response:
    if request.http.headers.get("hx-request"):
        return request.render("_work.html", work=work)
    return redirect(work.address)


PAGES: Final = (ConsolePage(PATH, work_page),)
STEPS: Final = ((PATH + "/step", work_step), (PATH + "/stop", work_stop))
