"""The anchor: the heads of all chains, written to a file outside the database."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from postdate.core.log import Log
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.event.store import seal

log = Log()

ANCHOR_SECONDS: Final = 60.0
"""How often the heads are written down: what is cut off before that leaves no trace."""

MAX_REMEMBERED: Final = 2000
"""How many anchors of a tenant are compared; of more, every other one. The last always counts."""


class AnchorLine(msgspec.Struct, frozen=True):
    """One line of the file: when, and (tenant, position, hash) of every chain that has moved."""

    time: datetime
    heads: list[tuple[int, int, str]]


class AnchorError(Exception):
    """The anchor file cannot be read or is invalid."""


class AnchorFile:
    """A file of JSON lines that only ever grows."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: AnchorLine) -> None:
        """Append a line and sync it to disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            # A line torn by a crash must not damage the next one.
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, (b"\n" if torn else b"") + msgspec.json.encode(line) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lines(self) -> Iterator[AnchorLine]:
        """Read every line; skip lines torn by a crash."""
        try:
            with self.path.open("rb") as file:
                for text in file:
                    if line := _decode(text):
                        yield line
        except OSError as error:
            raise AnchorError(f"{self.path} cannot be read: {error.strerror}") from error


def _decode(text: bytes) -> AnchorLine | None:
    try:
        return msgspec.json.decode(text, type=AnchorLine)
    except msgspec.DecodeError:
        return None


class Anchors:
    """The anchors of one tenant: enough of them to locate where a chain was changed."""

    def __init__(self) -> None:
        self.last: tuple[int, str, datetime] | None = None
        self._known: dict[int, str] = {}

    def add(self, position: int, digest: str, time: datetime) -> None:
        """Add an anchor; call this in the order of the file."""
        if self.last is None or position > self.last[0]:
            self.last = position, digest, time
        self._known.setdefault(position, digest)
        if len(self._known) > MAX_REMEMBERED:
            self._known = dict(list(self._known.items())[::2])

    def find(self, position: int) -> str | None:
        """Return the hash that was anchored for the seal that ends at a position."""
        if self.last is not None and position == self.last[0]:
            return self.last[1]
        return self._known.get(position)


def collect(lines: Iterator[AnchorLine]) -> dict[int, Anchors]:
    """Sort anchors by tenant."""
    found: dict[int, Anchors] = {}
    for line in lines:
        for tenant_id, position, digest in line.heads:
            found.setdefault(tenant_id, Anchors()).add(position, digest, line.time)
    return found


class Anchorer:
    """Appends the heads to the file when they have moved, and notices if one went back."""

    def __init__(self, database: Database, file: AnchorFile) -> None:
        self._database = database
        self._file = file
        self._last: dict[int, tuple[int, str]] | None = None

    async def run_once(self, _: int = 1) -> int:
        """Write one line if there is anything new; a failure does not stop sealing."""
        try:
            await self._anchor()
        except OSError as error:
            log.warning("event.anchor_failed", path=str(self._file.path), error=str(error))
        return 0

    async def finish(self) -> None:
        """Write the heads once more when the process ends."""
        try:
            await self.run_once()
        except DatabaseError as error:
            log.warning("event.anchor_failed", path=str(self._file.path), error=str(error))

    async def _anchor(self) -> None:
        if self._last is None:
            self._last = await asyncio.to_thread(self._anchored)
        async with self._database.connection() as connection:
            chains = await seal.chains(connection)
            now = await clock.now(connection)
        ends = {chain.tenant_id: (chain.position, chain.hash.hex()) for chain in chains}
        moved = {each: end for each, end in ends.items() if self._last.get(each) != end}
        if not moved:
            return
        self._warn(moved)
        line = AnchorLine(now, [(each, *end) for each, end in sorted(moved.items())])
        await asyncio.to_thread(self._file.append, line)
        self._last = ends

    def _anchored(self) -> dict[int, tuple[int, str]]:
        if not self._file.path.exists():
            return {}
        try:
            found = collect(self._file.lines())
        except AnchorError as error:
            raise OSError(str(error)) from error
        return {each: known.last[:2] for each, known in found.items() if known.last}

    def _warn(self, moved: Mapping[int, tuple[int, str]]) -> None:
        """Warn the operator about a chain that went back: it was restored or tampered with."""
        for tenant_id, (position, digest) in moved.items():
            anchored, known = (self._last or {}).get(tenant_id, (0, ""))
            if position < anchored or (position == anchored and digest != known):
                log.error(
                    "event.chain_went_back",
                    tenant_id=tenant_id,
                    position=position,
                    anchored=anchored,
                )
