"""The anchor: the heads of all chains, written down where the database cannot reach."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import asyncpg
import msgspec
import structlog

from postdate.store import seal
from postdate.store.database import LOST, Database
from postdate.store.seal import Head

log = structlog.get_logger()

ANCHOR_SECONDS: Final = 60.0
"""How often the heads are written down: what is cut off before that leaves no trace."""

REMEMBER_MOST: Final = 2000
"""How many anchors of a bucket are compared; of more, every other one. The last always counts."""

_TAIL_BYTES: Final = 64 * 1024


class Line(msgspec.Struct, frozen=True):
    """One line of the file: when, and (bucket, seq, hash) of every chain that has begun."""

    time: datetime
    heads: list[tuple[int, int, str]]


class AnchorError(Exception):
    """The anchor file cannot be read or says what it cannot say."""


class AnchorFile:
    """A file of JSON lines that only ever grows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: Line) -> None:
        """Write a line and see it onto the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # A line that a crash has torn must not spoil the next one.
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def last(self) -> Line | None:
        """Read the last whole line."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
        return next((line for text in reversed(lines) if (line := _decode(text))), None)

    def lines(self) -> Iterator[Line]:
        """Read every line; one that was torn by a crash is passed over."""
        try:
            with self.path.open("rb") as file:
                for text in file:
                    if line := _decode(text):
                        yield line
        except OSError as error:
            raise AnchorError(f"{self.path} cannot be read: {error.strerror}") from error


def _decode(text: bytes) -> Line | None:
    try:
        return msgspec.json.decode(text, type=Line)
    except msgspec.DecodeError:
        return None


class Anchors:
    """What was anchored for one bucket: enough of it to say where a chain went astray."""

    def __init__(self) -> None:
        self.last: tuple[int, str, datetime] | None = None
        self._known: dict[int, str] = {}

    def add(self, seq: int, digest: str, time: datetime) -> None:
        """Note an anchor; they come in the order in which they were written."""
        if self.last is None or seq > self.last[0]:
            self.last = seq, digest, time
        self._known.setdefault(seq, digest)
        if len(self._known) > REMEMBER_MOST:
            self._known = dict(list(self._known.items())[::2])

    def get(self, seq: int) -> str | None:
        """Give the hash that was anchored for a link."""
        if self.last is not None and seq == self.last[0]:
            return self.last[1]
        return self._known.get(seq)


def collect(lines: Iterator[Line]) -> dict[int, Anchors]:
    """Sort anchors by bucket."""
    found: dict[int, Anchors] = {}
    for line in lines:
        for bucket, seq, digest in line.heads:
            found.setdefault(bucket, Anchors()).add(seq, digest, line.time)
    return found


class Anchorer:
    """Writes the heads down whenever they have moved, and notices when they went back."""

    def __init__(self, database: Database, file: AnchorFile) -> None:
        self._database = database
        self._file = file
        self._last: dict[int, tuple[int, str]] | None = None

    async def run_once(self, _: int = 1) -> int:
        """Write one line if there is anything new; sealing goes on without it."""
        try:
            await self._anchor()
        except OSError as error:
            log.warning("event.anchor_failed", path=str(self._file.path), error=str(error))
        return 0

    async def finish(self) -> None:
        """Write the heads down once more when the process ends."""
        try:
            await self.run_once()
        except (asyncpg.PostgresError, *LOST) as error:
            log.warning("event.anchor_failed", path=str(self._file.path), error=str(error))

    async def _anchor(self) -> None:
        if self._last is None:
            self._last = _places(await asyncio.to_thread(self._file.last))
        async with self._database.writer.acquire() as connection:
            heads = [head for head in await seal.heads(connection) if head.seq]
            now = await seal.now(connection)
        line = Line(now, [(head.bucket, head.seq, head.hash.hex()) for head in heads])
        if _places(line) == self._last:
            return
        self._warn(heads)
        await asyncio.to_thread(self._file.append, line)
        self._last = _places(line)

    def _warn(self, heads: Sequence[Head]) -> None:
        """Tell the operator of a chain that went back: it was restored, or tampered with."""
        for head in heads:
            seq, digest = (self._last or {}).get(head.bucket, (0, ""))
            if head.seq < seq or (head.seq == seq and head.hash.hex() != digest):
                log.error("event.chain_went_back", bucket=head.bucket, seq=head.seq, anchored=seq)


def _places(line: Line | None) -> dict[int, tuple[int, str]]:
    return {bucket: (seq, digest) for bucket, seq, digest in line.heads} if line else {}
