"""The history of a run: one JSON line for each thing that began, ended or went wrong."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

Type = Literal["invoke", "ok", "fail", "info"]
"""`fail` is a refusal that changed nothing; `info` leaves open whether anything changed."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: seconds since the run began, who, what, and the number of the operation."""

    at: float
    by: str
    type: Type
    op: str
    n: int = 0
    tenant: str = ""
    data: dict[str, Any] = {}


class Recorder:
    """Writes lines to a file and keeps them; the clock is monotonic and begins at zero."""

    def __init__(self, path: Path) -> None:
        self._began = time.monotonic()
        self._file: IO[bytes] = path.open("wb")
        self.lines: list[Line] = []

    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def __call__(
        self, by: str, kind: Type, op: str, n: int = 0, tenant: str = "", **data: Any
    ) -> Line:
        """Record one line."""
        line = Line(at=round(self.now(), 4), by=by, type=kind, op=op, n=n, tenant=tenant, data=data)
        self.lines.append(line)
        self._file.write(msgspec.json.encode(line) + b"\n")
        return line

    def close(self) -> None:
        """See the last line onto the disk."""
        self._file.close()


def read(path: Path) -> Iterator[Line]:
    """Read a recorded history; a torn last line is passed over."""
    with path.open("rb") as file:
        for text in file:
            if text.endswith(b"\n"):
                yield msgspec.json.decode(text, type=Line)


def answered(lines: Iterable[Line], op: str) -> Iterator[tuple[Line, Line]]:
    """Pair each acknowledged operation of a kind with the line of its first invocation."""
    began: dict[tuple[str, int], Line] = {}
    for line in lines:
        if line.op != op:
            continue
        if line.type == "invoke":
            began.setdefault((line.by, line.n), line)
        elif line.type == "ok":
            yield began[line.by, line.n], line
