"""A process that computes for a node, within limits of memory and CPU time.

It reads functions with their arguments from its input and writes the results. Its parent may kill
it at any time; when the parent is gone, the input ends, and so does the process.
"""

import copyreg
import os
import pickle
import resource
import signal
import sys
import traceback
from enum import Enum
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import IO, Any, BinaryIO, Final
from zoneinfo import ZoneInfo

from postdate.recurrence import zone
from postdate.words.error import RefusedError

NICE: Final = 5
"""Processes that serve requests come first."""

MAX_RESULT_BYTES: Final = 16 * 1024 * 1024


class ComputeEnding(Enum):
    """How a computation ended."""

    DONE = "done"
    REFUSED = "refused"
    TOO_LARGE = "too large"
    NO_MEMORY = "no memory"
    FAILED = "failed"


ComputeResult = tuple[ComputeEnding, Any]


def compute(inbox: BinaryIO) -> ComputeResult:
    """Read a computation, compute it, and say how it ended."""
    try:
        function, arguments = pickle.load(inbox)  # noqa: S301 - our parent wrote it
        return ComputeEnding.DONE, function(*arguments)
    except RefusedError as error:
        return ComputeEnding.REFUSED, error.refusal
    except MemoryError:
        return ComputeEnding.NO_MEMORY, None
    except Exception:  # noqa: BLE001 - the parent raises it
        return ComputeEnding.FAILED, traceback.format_exc()


def serve(inbox: BinaryIO, results: BinaryIO, memory_bytes: int, cpu_seconds: int) -> None:
    """Compute one computation after the other until the input ends."""
    memory = _size_bytes() + memory_bytes
    _limit(resource.RLIMIT_AS, memory)
    while inbox.peek(1):  # type: ignore[attr-defined]
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, ceil(used.ru_utime + used.ru_stime) + cpu_seconds)
        ending, value = compute(inbox)
        answer = _packed(ending, value)
        results.write(len(answer).to_bytes(8) + answer)
        results.flush()


class Packer(pickle.Pickler):
    """Packs what goes through a pipe; a time zone goes by its name, because it came from a file."""

    dispatch_table = copyreg.dispatch_table | {ZoneInfo: lambda each: (zone.get, (each.key,))}

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)


def _packed(ending: ComputeEnding, value: Any) -> bytes:
    packed = BytesIO()
    try:
        Packer(packed).dump((ending, value))
    except MemoryError:
        return pickle.dumps((ComputeEnding.NO_MEMORY, None))
    except Exception:  # noqa: BLE001 - the parent raises it
        return pickle.dumps((ComputeEnding.FAILED, traceback.format_exc()))
    answer = packed.getvalue()
    return (
        answer if len(answer) <= MAX_RESULT_BYTES else pickle.dumps((ComputeEnding.TOO_LARGE, None))
    )


def _limit(kind: int, value: int) -> None:
    """Lower a limit of this process; one that the system does not know is left alone."""
    _, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))
    except (OSError, ValueError):
        return


def _size_bytes() -> int:
    """Return the address space that this process has."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    except OSError:
        return 1 << 30
    return pages * resource.getpagesize()


def main() -> None:
    """Serve the parent that started this process."""
    # Ctrl-C reaches the whole group: the parent ends this process when it has done its own part.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a print is not a result
    memory_bytes, cpu_seconds = (int(each) for each in sys.argv[1:])
    serve(sys.stdin.buffer, results, memory_bytes, cpu_seconds)


if __name__ == "__main__":
    main()
