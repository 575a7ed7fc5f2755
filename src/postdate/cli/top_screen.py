"""The screen of `postdate top`: what is shown, and what each key does to it."""

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from postdate.cli.vitals_page import VitalsPage

SORTS: Final = ("ready", "running", "unknown", "pending", "lane")
MAX_ROWS: Final = 30
HELP: Final = "/ filter  s sort  p freeze  j k move  P pause lane  R resume lane  q leave"
ESCAPE: Final = "\x1b"
_VERBS: Final = {"P": "pause", "R": "resume"}


@dataclass(frozen=True)
class LaneAction:
    """A confirmed change of a lane."""

    verb: str
    lane: str


@dataclass
class Screen:
    """The state of the screen; the cursor follows its lane, not its row."""

    read_only: bool = False
    page: VitalsPage | None = None
    filter: str = ""
    typing: bool = False
    sort: str = SORTS[0]
    frozen: bool = False
    cursor: str | None = None
    asked: LaneAction | None = None
    left: bool = False
    message: str = ""
    learned_at: float = field(default_factory=time.monotonic)

    def learn(self, page: VitalsPage) -> None:
        """Show a new page, unless the screen is frozen."""
        self.learned_at = time.monotonic()
        self.message = "" if self.message.startswith("stale") else self.message
        if not self.frozen:
            self.page = page

    def mark_stale(self, reason: str) -> None:
        """Mark the shown page as stale."""
        self.message = f"stale: {reason}"

    def show_line(self, text: str) -> None:
        """Show a line."""
        self.message = text

    def handle_key(self, key: str | None) -> LaneAction | None:
        """Handle a key; return the lane action if it was confirmed."""
        if key is None:
            return None
        if self.asked is not None:
            action, self.asked, self.message = self.asked, None, ""
            return action if key == "y" else None
        if self.typing:
            self._type(key)
        elif key in _VERBS and self.cursor is not None:
            self._ask(LaneAction(_VERBS[key], self.cursor))
        else:
            self._steer(key)
        return None

    def _ask(self, action: LaneAction) -> None:
        if self.read_only:
            self.show_line("started with --read-only: nothing can be changed here")
            return
        self.asked = action
        self.show_line(f"{action.verb} {action.lane}? y")

    def _type(self, key: str) -> None:
        if key in {"\r", "\n"}:
            self.typing = False
        elif key == ESCAPE:
            self.typing, self.filter = False, ""
        elif key in {"\x7f", "\b"}:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key

    def _steer(self, key: str) -> None:
        match key:
            case "/":
                self.typing, self.filter = True, ""
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
            case "p":
                self.frozen = not self.frozen
            case "j":
                self._move(1)
            case "k":
                self._move(-1)
            case "q":
                self.left = True
            case _:
                pass

    def _move(self, by: int) -> None:
        names = [row["lane"] for row in self.rows()]
        if not names:
            return
        place = names.index(self.cursor) + by if self.cursor in names else 0
        self.cursor = names[max(0, min(place, len(names) - 1))]

    def rows(self) -> list[dict[str, Any]]:
        """Return the lanes that pass the filter, sorted."""
        lanes = self.page.lanes if self.page else []
        found = [row for row in lanes if self.filter in row["lane"]]
        if self.sort == "lane":
            return sorted(found, key=lambda row: row["lane"])
        return sorted(found, key=lambda row: (-row[self.sort], row["lane"]))

    def draw(self) -> RenderableType:
        """Draw everything."""
        if self.page is None:
            return Text(self.message or "looking …")
        parts: list[RenderableType] = [self._head(self.page)]
        parts += [Text(f"! {each}", style="bold red") for each in self.page.warnings]
        parts += [_kinds(self.page), self._lanes(), Text(self.message or HELP, style="dim")]
        return Group(*parts)

    def _head(self, page: VitalsPage) -> RenderableType:
        nodes = "  ".join(f"{role} {count}" for role, count in sorted(page.nodes.items()))
        rates = "  ".join(f"{name} {value:.1f}/s" for name, value in page.rates.items())
        failed = "  ".join(f"{name} {value:.2f}/s" for name, value in page.failures.items())
        age = time.monotonic() - self.learned_at
        state = "frozen" if self.frozen else f"{age:.0f} s old"
        text = f"nodes: {nodes or 'not read yet'}\n{rates}\nfailures: {failed or 'none'}"
        return Panel(text, title=f"postdate {page.url} ({state})")

    def _lanes(self) -> RenderableType:
        title = f"lanes by {self.sort}"
        if self.filter or self.typing:
            title += f", filter: {self.filter}{'_' if self.typing else ''}"
        names = ("lane", "ready", "running", "pending", "unknown")
        # As text: brackets in a note are no markup.
        table = Table(*names, "paused", title=Text(title))
        for row in self.rows()[:MAX_ROWS]:
            cells = [str(row[name]) for name in names]
            cells.append(row["paused_note"] or ("yes" if row["paused"] else ""))
            style = "reverse" if row["lane"] == self.cursor else None
            table.add_row(*map(Text, cells), style=style)
        return table


def _kinds(page: VitalsPage) -> RenderableType:
    table = Table("kind", "backlog", "oldest", "parked", "per second", "late p50", "late p99")
    for each in page.kinds:
        table.add_row(
            each.kind,
            f"{each.backlog:,}",
            f"{each.oldest_seconds:.1f} s",
            str(each.parked),
            f"{each.per_second:.1f}",
            _seconds(each.late_p50_seconds),
            _seconds(each.late_p99_seconds),
        )
    return table


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


Pressed = Callable[[float], Awaitable[str | None]]


@contextlib.contextmanager
def keys() -> Iterator[Pressed]:
    """Read single keys from the terminal, and restore its mode afterwards."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    queue: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def pressed(seconds: float) -> str | None:
        try:
            async with asyncio.timeout(seconds):
                return await queue.get()
        except TimeoutError:
            return None

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            queue.put_nowait(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
