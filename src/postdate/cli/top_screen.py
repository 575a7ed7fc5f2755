"""The screen of `postdate top`: what is shown, and what each key does to it."""

import asyncio
import contextlib
import os
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from postdate.cli import top_picture
from postdate.cli.vitals_page import VitalsPage

SORTS: Final = {
    "ready": "due now",
    "running": "running",
    "unknown": "unknown",
    "pending": "pending",
    "lane": "name",
}
MAX_ROWS: Final = 30
MAX_HISTORY: Final = 30
"""How many looks a sparkline has: a minute."""

HINT: Final = "? help  / filter  s sort  p freeze  j k move  P pause lane  R resume lane  q leave"
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
    sort: str = "ready"
    frozen: bool = False
    cursor: str | None = None
    asked: LaneAction | None = None
    helping: bool = False
    history: dict[str, deque[float]] = field(default_factory=dict)
    """How many of each kind started a second, at the latest looks."""
    left: bool = False
    message: str = ""
    learned_at: float = field(default_factory=time.monotonic)

    def learn(self, page: VitalsPage) -> None:
        """Show a new page, unless the screen is frozen."""
        self.learned_at = time.monotonic()
        self.message = "" if self.message.startswith("stale") else self.message
        for each in page.kinds:
            own = self.history.setdefault(each.kind, deque(maxlen=MAX_HISTORY))
            own.append(each.per_second)
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
        if self.helping:
            self.helping = False
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
                names = list(SORTS)
                self.sort = names[(names.index(self.sort) + 1) % len(names)]
            case "?":
                self.helping = True
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
        """Draw everything, or the help."""
        if self.page is None:
            return Text(self.message or "looking …")
        if self.helping:
            return top_picture.help_page()
        state = "frozen" if self.frozen else f"{time.monotonic() - self.learned_at:.0f} s old"
        title = f"lanes by {SORTS[self.sort]}"
        if self.filter or self.typing:
            title += f", filter: {self.filter}{'_' if self.typing else ''}"
        return Group(
            top_picture.head(self.page, state),
            *(Text(f"! {each}", style="bold red") for each in self.page.warnings),
            top_picture.kinds(self.page, self.history),
            *top_picture.tenant(self.page.tenant),
            top_picture.lanes(self.rows()[:MAX_ROWS], self.cursor, title),
            Text(self.message or HINT, style="dim"),
        )


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
