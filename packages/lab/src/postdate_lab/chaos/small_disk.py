"""A small disk of the run's own, for its database and its logs, that can be filled."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MEGABYTE: Final = 2**20


class SmallDisk:
    """A mounted tmpfs; what fills it is one file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fill(self) -> int:
        """Leave nothing free; return how many megabytes that took."""
        filled = 0
        with (self.place / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(MEGABYTE)) == MEGABYTE:
                filled += 1
        return filled

    def heal(self) -> None:
        """Give the room back."""
        (self.place / "ballast").unlink(missing_ok=True)


@contextmanager
def mounted(place: Path, megabytes: int) -> Iterator[SmallDisk | None]:
    """Mount a disk of this size; without one, or without the right to, there is none."""
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o711)
    options = f"size={megabytes}m,mode=0711"
    if not megabytes or _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)):
        yield None
        return
    try:
        yield SmallDisk(place)
    finally:
        _keep_logs(place)
        _run("umount", "-l", str(place))


def _keep_logs(place: Path) -> None:
    """Save the logs from the disk, which ends with the run."""
    for log in place.glob("*.log"):
        (place.parent / log.name).write_bytes(log.read_bytes())


def _run(*words: str) -> int:
    return subprocess.run(words, check=False, capture_output=True).returncode  # noqa: S603 - ours


def may_mount() -> bool:
    """Return whether a disk of its own can be had here."""
    return sys.platform == "linux" and os.geteuid() == 0
