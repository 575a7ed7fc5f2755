"""The history of a run: one JSON line for each thing that began, ended or went wrong."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

LineType = Literal["invoke", "ok", "fail", "info"]
"""`fail` is a refusal that changed nothing; `info` leaves open whether anything changed."""


RUN: Final = "run"
"""The file of what belongs to no tenant: the faults, and the run itself."""

RECENT: Final = 200


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: seconds since the run began, who, what, and the number of the operation."""

    at: float
    by: str
    type: LineType
    op: str
    n: int = 0
    tenant: str = ""
    data: dict[str, Any] = {}


class Recorder:
    """Writes each line to the file of its tenant; the clock is monotonic and begins at zero.

    Only the newest lines stay in memory: a run has millions.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._began = time.monotonic()
        self._files: dict[str, IO[bytes]] = {}
        self.recent: deque[HistoryLine] = deque(maxlen=RECENT)
        self(RUN, "info", "clock", wall=time.time())

    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def __call__(
        self, by: str, kind: LineType, op: str, n: int = 0, tenant: str = "", **data: Any
    ) -> HistoryLine:
        """Record one line."""
        line = HistoryLine(
            at=round(self.now(), 4), by=by, type=kind, op=op, n=n, tenant=tenant, data=data
        )
        self.recent.append(line)
        name = tenant or RUN
        if name not in self._files:
            self._files[name] = (self._directory / f"{name}.jsonl").open("wb")
        self._files[name].write(msgspec.json.encode(line) + b"\n")
        return line

    def close(self) -> None:
        """See the last lines onto the disk."""
        for file in self._files.values():
            file.close()


def read(path: Path) -> Iterator[HistoryLine]:
    """Read the recorded history of a tenant; a torn last line is passed over."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for text in file:
            if text.endswith(b"\n"):
                yield msgspec.json.decode(text, type=HistoryLine)


def answered(lines: Iterable[HistoryLine], op: str) -> Iterator[tuple[HistoryLine, HistoryLine]]:
    """Pair each acknowledged operation of a kind with the line of its first invocation."""
    began: dict[tuple[str, int], HistoryLine] = {}
    for line in lines:
        if line.op != op:
            continue
        if line.type == "invoke":
            began.setdefault((line.by, line.n), line)
        elif line.type == "ok":
            yield began[line.by, line.n], line
