"""Write lines from a thread of their own: one that cannot be written is dropped and counted."""

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

MAX_WAITING_BYTES: Final = 1024 * 1024
"""How much may wait to be written; what exceeds it is dropped."""

FULL_SECONDS: Final = 1.0
"""How long the writer waits for room where a write does not wait by itself."""

FLUSH_SECONDS: Final = 2.0
"""How long the end of a process waits for its last lines."""

Notice: TypeAlias = Callable[[int], str]
"""Renders the line that says how many are missing."""


class LineWriter:
    """Hands lines to one file descriptor; the caller never waits, and never fails.

    Its reader may have gone, may not read, or its disk may be full.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.notice: Notice | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._broken_off = False
        self._dropped = 0
        self._reported = 0

    @property
    def dropped(self) -> int:
        """Return how many lines were dropped."""
        return self._dropped

    def write(self, line: str) -> None:
        """Write a line soon, or drop it."""
        data = line.encode(errors="replace") + b"\n"
        with self._changed:
            if self._waiting_bytes + len(data) > MAX_WAITING_BYTES:
                self._dropped += 1
                return
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lines", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drop(self) -> None:
        """Count a line that could not even be put together."""
        with self._changed:
            self._dropped += 1

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until all lines are written or dropped; return False if that takes too long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting_bytes, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                data = self._waiting.popleft()
            if self._put(data):
                self._report()
            with self._changed:
                self._waiting_bytes -= len(data)
                self._changed.notify_all()

    def _report(self) -> None:
        """Say how many lines are missing, once lines can be written again."""
        missing = self._dropped - self._reported
        if missing and self.notice and self._put(self.notice(missing).encode() + b"\n"):
            self._reported += missing

    def _put(self, data: bytes) -> bool:
        # What an earlier failure has broken off ends here.
        left = memoryview(b"\n" + data if self._broken_off else data)
        began = len(left)
        try:
            while left:
                left = left[self._write(left) :]
        except OSError:
            self._broken_off = self._broken_off or len(left) < began
            self.drop()
            return False
        self._broken_off = False
        return True

    def _write(self, data: memoryview) -> int:
        deadline = time.monotonic() + FULL_SECONDS
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                # Another process may have made the pipe one that does not wait.
                if time.monotonic() > deadline:
                    raise
                select.select([], [self._descriptor], [], FULL_SECONDS)
