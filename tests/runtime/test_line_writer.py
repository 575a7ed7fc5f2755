"""Lines that cannot be written: dropped, counted, and told of afterwards."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from postdate.node import line_writer
from postdate.node.line_writer import LineWriter

PIPE_BYTES = 65536


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read(descriptor: int, count: int) -> bytes:
    found = b""
    while found.count(b"\n") < count:
        found += os.read(descriptor, PIPE_BYTES)
    return found


def test_lines_come_in_their_order(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    for number in range(100):
        writer.write(f"line {number}")
    assert writer.flush()
    assert read(pipe[0], 100).decode() == "".join(f"line {n}\n" for n in range(100))
    assert writer.dropped == 0


def test_full_disk_drops_and_counts() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    writer = LineWriter(full)
    writer.write("one")
    writer.write("two")
    assert writer.flush()
    os.close(full)
    assert writer.dropped == 2


def test_dead_reader_drops_and_counts() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    writer = LineWriter(theirs)
    writer.write("one")
    assert writer.flush()
    os.close(theirs)
    assert writer.dropped == 1


@pytest.mark.parametrize("blocking", [True, False])
def test_reader_that_does_not_read_holds_nobody(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch, *, blocking: bool
) -> None:
    monkeypatch.setattr(line_writer, "MAX_WAITING_BYTES", 10_000)
    monkeypatch.setattr(line_writer, "FULL_SECONDS", 0.05)
    os.set_blocking(pipe[1], blocking)
    writer = LineWriter(pipe[1])
    writer.notice = lambda count: f"{count} missing"
    began = time.thread_time()
    for _ in range(1000):
        writer.write("x" * 999)
        if blocking:
            writer.flush(0.0005)
    assert time.thread_time() - began < 1
    assert writer.dropped > 0
    assert not writer.flush(0.01) or not blocking
    last = b""
    while b"missing" not in last:
        last = last[-1000:] + os.read(pipe[0], PIPE_BYTES)
        writer.write("again")
    assert writer.flush()


def test_notice_says_how_many_are_missing(tmp_path: Path, pipe: tuple[int, int]) -> None:
    """The same descriptor first leads to a full disk, then to a file."""
    full, target = os.open("/dev/full", os.O_WRONLY), os.dup(pipe[1])
    os.dup2(full, target)
    writer = LineWriter(target)
    writer.notice = lambda count: f"{count} missing"
    for _ in range(3):
        writer.write("lost")
    assert writer.flush()
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(file, target)
    writer.write("kept")
    writer.write("kept too")
    assert writer.flush()
    for each in (full, target, file):
        os.close(each)
    assert (tmp_path / "log").read_text() == "kept\n3 missing\nkept too\n"


def test_line_that_broke_off_does_not_spoil_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    writer = LineWriter(file)
    fate = iter([4, OSError(28, "No space left on device")])
    write = os.write

    def half(descriptor: int, data: memoryview) -> int:
        match next(fate, None):
            case int(count):
                return write(descriptor, data[:count])
            case OSError() as error:
                raise error
            case _:
                return write(descriptor, data)

    monkeypatch.setattr(os, "write", half)
    writer.write("broken off")
    writer.write("whole")
    assert writer.flush()
    os.close(file)
    assert (tmp_path / "log").read_text() == "brok\nwhole\n"
