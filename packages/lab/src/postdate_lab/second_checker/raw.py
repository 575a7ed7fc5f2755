"""Read what a run has left, from its directory or from the archive of it."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

PARTS: Final = ("history", "left", "run.json", "columns.json")
"""What the checkers need of a run, and all that an archive holds."""


@contextmanager
def opened(source: Path) -> Iterator[Path]:
    """Give the directory of a run; an archive is unpacked for as long as it is read."""
    if source.is_dir():
        yield source
        return
    with TemporaryDirectory(prefix="pd2") as name, tarfile.open(source) as archive:
        archive.extractall(name, filter="data")
        yield Path(name)


def pack(home: Path, target: Path) -> None:
    """Write the archive of a run; it appears under its name when it is whole."""
    unfinished = target.with_suffix(".part")
    with tarfile.open(unfinished, "w:xz", preset=1) as archive:
        for part in PARTS:
            archive.add(home / part, part)
    unfinished.replace(target)


def lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Read the lines of a history; a torn last line is no line."""
    if path.exists():
        with path.open() as file:
            yield from (json.loads(text) for text in file if text.endswith("\n"))


def rows(path: Path) -> Iterator[list[Any]]:
    """Read the rows of a table."""
    if path.exists():
        with path.open() as file:
            yield from map(json.loads, file)
