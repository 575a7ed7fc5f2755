"""Mark what waits for a process, a browser or the clock, and spread those files over the run.

The files of `faults` wait for processes and those of `model` compute. In the order of their folders
all pytest workers would wait at the same time, and compute at the same time.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROCESS_MODULES: Final = {
    "subprocess",
    "support.command",
    "support.embedded_server",
    "support.local_broker",
    "support.replica",
    "support.serve_process",
    "support.worker_process",
}
WAITING: Final = {"process", "browser"}
WAITING_SHARE: Final = 0.75
"""The part of the run in which files that wait are begun."""


def marks_of(item: pytest.Function) -> set[str]:
    """Say what a test needs besides our own code and a database."""
    marks = {"clock"} if "clock" in item.fixturenames else set()
    if "chromium" in item.fixturenames:
        marks.add("browser")
    if any(_origin(value) in PROCESS_MODULES for value in vars(item.module).values()):
        marks.add("process")
    return marks


def _origin(value: Any) -> str | None:
    """Return the name of a module, or of the module that defines a value."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return name if isinstance(name, str) else None


def spread(items: list[pytest.Item]) -> None:
    """Put the files that wait evenly among the others; each file stays together."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    kinds: tuple[list[Path], list[Path]] = [], []
    for path, found in files.items():
        waits = any(item.get_closest_marker(name) for item in found for name in WAITING)
        kinds[waits].append(path)
    # The k-th of n files is begun at k / n of the run; none that waits may be left for the end.
    places = {path: n / len(kinds[0]) for n, path in enumerate(kinds[0])}
    places |= {path: WAITING_SHARE * n / len(kinds[1]) for n, path in enumerate(kinds[1])}
    items[:] = [item for path in sorted(files, key=places.__getitem__) for item in files[path]]
