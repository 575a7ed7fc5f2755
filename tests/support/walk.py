"""Record which functions of postdate a piece of work passes, in the order of their first call."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import postdate

# The product and the client are one package in two source trees.
ROOTS = tuple(f"{folder}/" for folder in postdate.__path__)
NO_STATIONS = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")

# Timers that fire beside every walk, and what a connection of the pool does on its first use.
BESIDE = (
    "Connection.overdue",
    "Connections.watch",
    "DatabaseSession._introspect_types",
    "LoopWatch.record",
    "LoopWatch.run",
    "_LoopSampler._answer",
    "_Running._tick",
    "_Running.tick_later",
)


@dataclass
class Walk:
    """The functions that were called, and the calls from one module into another."""

    stations: list[str] = field(default_factory=list)
    hops: set[tuple[CodeType, CodeType]] = field(default_factory=set)
    _seen: set[CodeType] = field(default_factory=set)

    def _notice(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOTS):
            return
        if code not in self._seen:
            self._seen.add(code)
            if code.co_name not in NO_STATIONS and code.co_qualname not in BESIDE:
                self.stations.append(_name(code))
        caller = _caller(frame)
        if caller is not None and caller.co_filename != code.co_filename:
            self.hops.add((caller, code))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what happens inside."""
        before = sys.getprofile()
        sys.setprofile(self._notice)
        try:
            yield
        finally:
            sys.setprofile(before)

    def write(self, path: Path) -> None:
        """Write the whole walk down: how the stations of the page are chosen."""
        counted = f"{len(self.stations)} functions, {len(self.hops)} calls between modules"
        path.write_text("\n".join([counted, *self.stations, ""]))


def _caller(frame: FrameType) -> CodeType | None:
    """Return who of postdate called, past the library in between."""
    outer = frame.f_back
    while outer is not None and not outer.f_code.co_filename.startswith(ROOTS):
        outer = outer.f_back
    return outer.f_code if outer else None


def _name(code: CodeType) -> str:
    """Name a function as the pages do: `payment/accept/intake.Payments.accept`."""
    [root] = [root for root in ROOTS if code.co_filename.startswith(root)]
    module = code.co_filename.removeprefix(root).removesuffix(".py")
    return f"{module}.{code.co_qualname.replace('.<locals>', '')}"
