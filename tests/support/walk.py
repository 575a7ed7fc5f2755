"""Record which functions of postdate a piece of work passes, in the order of their first call."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import postdate

ROOT = str(Path(postdate.__file__).parent) + "/"
NO_STATIONS = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<module>")


@dataclass
class Walk:
    """The functions that were called, and the calls from one module into another."""

    stations: list[str] = field(default_factory=list)
    hops: set[tuple[CodeType, CodeType]] = field(default_factory=set)
    _seen: set[CodeType] = field(default_factory=set)

    def _notice(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT):
            return
        if code not in self._seen:
            self._seen.add(code)
            if code.co_name not in NO_STATIONS:
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
    while outer is not None and not outer.f_code.co_filename.startswith(ROOT):
        outer = outer.f_back
    return outer.f_code if outer else None


def _name(code: CodeType) -> str:
    """Name a function as the pages do: `intake/payment/accept.Payments.accept`."""
    module = code.co_filename.removeprefix(ROOT).removesuffix(".py")
    return f"{module}.{code.co_qualname.replace('.<locals>', '')}"
