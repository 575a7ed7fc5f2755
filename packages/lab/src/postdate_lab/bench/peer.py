"""Run other schedulers side by side: which there are, and what each one reached."""

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import msgspec

from postdate_lab.bench.arm import show_progress
from postdate_lab.bench.peers.contract import PeerOrder, PeerRates
from postdate_lab.bench.testbed import Testbed

MAX_SECONDS: Final = 300.0
"""The longest that a peer may take for one round."""

_numbers: Final[Iterator[int]] = itertools.count(1)


class Peer(NamedTuple):
    """A peer: its package, and the maximum number of jobs it is given."""

    package: str
    max_jobs: int
    group: str


PEERS: Final = {
    "pgqueuer": Peer("pgqueuer", 20_000, "bench"),
    "procrastinate": Peer("procrastinate", 1000, "bench"),
    "dbos": Peer("dbos", 500, "peers"),
    "chancy": Peer("chancy", 1000, "peers"),
    "absurd": Peer("absurd_sdk", 1000, "peers"),
    "celery": Peer("celery", 2000, "peers"),
    "temporal": Peer("temporalio", 200, "peers"),
}
"""The slow ones get few jobs: their rate does not depend on the number, and time is short."""

MIN_JOBS: Final = 50


def installed() -> list[str]:
    """Return the peers that can be measured here; say which are skipped."""
    found = []
    for name, peer in PEERS.items():
        if find_spec(peer.package):
            found.append(name)
        else:
            show_progress(f"  {name} is skipped: `uv sync --group {peer.group}` brings it")
    return found


async def measure(at: Testbed, name: str, count: int) -> PeerRates | None:
    """Let a peer run jobs; one that fails is left out, and why is told."""
    try:
        return await _measure(at, name, count)
    except (RuntimeError, TimeoutError) as error:
        show_progress(f"  {name} is left out: {str(error) or 'it took too long'}")
        return None


def _jobs(name: str, count: int) -> int:
    """Return how many jobs a peer gets where the quickest gets so many."""
    quickest = max(peer.max_jobs for peer in PEERS.values())
    return max(MIN_JOBS, min(count, quickest) * PEERS[name].max_jobs // quickest)


async def _measure(at: Testbed, name: str, count: int) -> PeerRates:
    """Run jobs in an empty database; return the rates."""
    dsn = await at.database(f"{name}_{next(_numbers)}")
    with TemporaryDirectory(prefix="pdp") as directory:
        order = PeerOrder(dsn=dsn, count=_jobs(name, count), directory=directory)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "postdate_lab.bench.peers", name,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(MAX_SECONDS):
                out, err = await process.communicate(msgspec.json.encode(order))
        finally:
            if process.returncode is None:
                # With the servers that it started.
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
    if process.returncode:
        raise RuntimeError(f"{name} failed: {err.decode(errors='replace')[-1000:]}")
    return msgspec.json.decode(out.rstrip().rpartition(b"\n")[2], type=PeerRates)
