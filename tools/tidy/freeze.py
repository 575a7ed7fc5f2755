"""The schema of the last release, frozen: `make freeze` writes it, tests compare and upgrade it.

Until there is such a file, migrations and functions may change in place.
"""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from postdate.schema.migrate import FunctionFile, Migration, known, known_functions, release

ROOT: Final = Path(__file__).parents[2]
FROZEN: Final = ROOT / "tests/upgrade/frozen.json"
SOURCES: Final = ("src", "packages/client/src")
"""The trees of the server: a test runs them as they were, to make a data directory of that time."""


class FrozenSchema(msgspec.Struct, frozen=True, kw_only=True):
    """All that a release applied to an empty database."""

    release: str
    commit: str
    migrations: list[Migration]
    functions: list[FunctionFile]


def freeze() -> FrozenSchema:
    """Return the schema as it is now."""
    commit = _git("rev-parse", "HEAD")
    return FrozenSchema(
        release=release(), commit=commit, migrations=known(), functions=known_functions()
    )


def read() -> FrozenSchema | None:
    """Read what was frozen; None before the first release."""
    return msgspec.json.decode(FROZEN.read_bytes(), type=FrozenSchema) if FROZEN.exists() else None


def changed(frozen: FrozenSchema, migrations: list[Migration]) -> list[str]:
    """Name the frozen migrations that were changed or are gone."""
    now = {each.version: each for each in migrations}
    return [each.name for each in frozen.migrations if now.get(each.version) != each]


def _git(*words: str) -> str:
    ran = subprocess.run(
        ("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


if __name__ == "__main__":
    if changes := _git("status", "--porcelain", *SOURCES):
        sys.exit(f"commit first, so that the commit has what is frozen:\n{changes}")
    FROZEN.parent.mkdir(exist_ok=True)
    FROZEN.write_bytes(msgspec.json.format(msgspec.json.encode(freeze())) + b"\n")
    print(f"{FROZEN.name} has the schema of {release()}: from now on, add migrations")
