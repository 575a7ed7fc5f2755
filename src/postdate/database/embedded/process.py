"""The processes of one cluster, told apart by where they work, not by number or name alone."""

import os
import signal
import time
from pathlib import Path
from typing import Final

import psutil

_GONE_SECONDS: Final = 5.0


def environment() -> dict[str, str]:
    """Return the server's environment: ours without our settings (secrets) and without libpq's."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("POSTDATE_", "PG"))}


def members(cluster: Path) -> list[psutil.Process]:
    """Find every live process of the cluster: each works in its data directory."""
    path = str(cluster.resolve())
    return [process for process in psutil.process_iter() if _belongs(process, path)]


def postmaster(cluster: Path) -> psutil.Process | None:
    """Find the cluster's postmaster, if the process its lock file names is really that."""
    pid = lock_pid(cluster / "postmaster.pid")
    try:
        process = psutil.Process(pid) if pid else None
    except psutil.NoSuchProcess:
        return None
    return process if process and _belongs(process, str(cluster.resolve())) else None


def lock_pid(path: Path) -> int | None:
    """Read the process number in one of PostgreSQL's lock files."""
    try:
        return abs(int(path.read_text().split("\n", 1)[0]))
    except (OSError, ValueError):
        return None


def is_live(process: psutil.Process) -> bool:
    """Return whether the process still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def kill_all(cluster: Path) -> int:
    """Kill every process of a cluster, wait until they are gone, and count them.

    Safe for the data: it is what a power cut does, and recovery follows.
    """
    found = members(cluster)
    for process in found:
        send(process, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(map(is_live, found)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(found)


def send(process: psutil.Process, number: signal.Signals) -> None:
    """Send a signal to a process, unless it has ended."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def remove_stale_locks(*paths: Path) -> None:
    """Remove lock files that name a process which is not the cluster's.

    Only for a cluster without processes. PostgreSQL itself refuses to start when the number in
    the file has been given to another process of the same user.
    """
    for path in paths:
        pid = lock_pid(path)
        if pid is not None and psutil.pid_exists(pid):
            path.unlink(missing_ok=True)


def _belongs(process: psutil.Process, path: str) -> bool:
    try:
        return process.name() == "postgres" and process.cwd() == path and is_live(process)
    except psutil.Error:
        return False
