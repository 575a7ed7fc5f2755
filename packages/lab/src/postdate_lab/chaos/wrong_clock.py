"""A clock below the run's PostgreSQL that can leap, by libfaketime; every other clock is right."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LIBRARY: Final = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""Debian: the package faketime."""

FILE_VARIABLE: Final = "FAKETIME_TIMESTAMP_FILE"
VARIABLES: Final = ("LD_PRELOAD", FILE_VARIABLE, "FAKETIME_NO_CACHE", "DONT_FAKE_MONOTONIC")
"""What only the database's processes may see."""

LEAPS: Final = ("-1h", "+1h", "-5m", "+2h", "-20s", "+30d", "+1d")


class WrongClock:
    """The file that libfaketime reads; what stands in it is added to the time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shift("+0")

    def shift(self, by: str) -> None:
        """Show the database another time from now on."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{by}\n")
        new.chmod(0o644)
        new.replace(self._path)


@contextmanager
def below(home: Path, *, wanted: bool) -> Iterator[WrongClock | None]:
    """Let a server that is started meanwhile read the clock from a file."""
    if not wanted or LIBRARY is None:
        yield None
        return
    clock = WrongClock(home / "clock")
    values = (str(LIBRARY), str(home / "clock"), "1", "1")
    before = {name: os.environ.get(name) for name in VARIABLES}
    os.environ.update(zip(VARIABLES, values, strict=True))
    try:
        yield clock
    finally:
        clock.shift("+0")
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def others(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment without the wrong clock."""
    if FILE_VARIABLE not in environment:
        return environment
    return {name: value for name, value in environment.items() if name not in VARIABLES}
