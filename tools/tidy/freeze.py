"""The schema of the last release, frozen: `make freeze` writes it, tests compare and upgrade it.

Until there is such a file, migrations and functions may change in place.
"""

from pathlib import Path
from typing import Final

import msgspec

from postdate.schema.migrate import FunctionFile, Migration, known, known_functions, release

FROZEN: Final = Path(__file__).parents[2] / "tests/upgrade/frozen.json"


class FrozenSchema(msgspec.Struct, frozen=True, kw_only=True):
    """All that a release applied to an empty database."""

    release: str
    migrations: list[Migration]
    functions: list[FunctionFile]


def freeze() -> FrozenSchema:
    """Return the schema as it is now."""
    return FrozenSchema(release=release(), migrations=known(), functions=known_functions())


def read() -> FrozenSchema | None:
    """Read what was frozen; None before the first release."""
    return msgspec.json.decode(FROZEN.read_bytes(), type=FrozenSchema) if FROZEN.exists() else None


def changed(frozen: FrozenSchema, migrations: list[Migration]) -> list[str]:
    """Name the frozen migrations that were changed or are gone."""
    now = {each.version: each for each in migrations}
    return [each.name for each in frozen.migrations if now.get(each.version) != each]


if __name__ == "__main__":
    FROZEN.parent.mkdir(exist_ok=True)
    FROZEN.write_bytes(msgspec.json.format(msgspec.json.encode(freeze())) + b"\n")
    print(f"{FROZEN.name} has the schema of {release()}: from now on, add migrations")
