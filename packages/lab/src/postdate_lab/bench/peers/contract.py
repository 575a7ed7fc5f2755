"""What a peer's process is told, and what it answers."""

import sys
from collections.abc import Callable
from typing import Final

import msgspec

BATCH: Final = 1000
"""Jobs of one call, where a peer takes many at once."""

PAYLOAD: Final = '{"order":4711,"to":"someone@example.com"}'
END_SECONDS: Final = 600.0


class PeerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs to run, in which empty database, and where temporary files may lie."""

    dsn: str
    count: int
    directory: str


class PeerRates(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs a second: accepted, and executed by one worker process once all were accepted."""

    accepted: float
    executed: float


def chunks(count: int) -> list[int]:
    """Divide a number of jobs into calls."""
    return [min(BATCH, count - first) for first in range(0, count, BATCH)]


def answer(measure: Callable[[PeerOrder], PeerRates]) -> None:
    """Read the order, measure, and write the rates."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=PeerOrder)
    rates = measure(order)
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(rates) + b"\n")
