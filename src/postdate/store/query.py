"""Named queries: SQL is read as SQL, from the `.sql` files beside this module."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def parse(text: str) -> Iterator[tuple[str, str]]:
    """Split a file at its `-- name:` lines."""
    parts = _NAME.split(text)
    return zip(parts[1::2], (body.strip() for body in parts[2::2]), strict=True)


@cache
def _queries() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(files("postdate.store").joinpath("sql").iterdir(), key=lambda f: f.name):
        for name, body in parse(file.read_text()):
            if name in found:
                raise ValueError(f"query {name} stands twice")
            found[name] = body
    return found


def query(name: str) -> str:
    """Give the text of a named query."""
    return _queries()[name]
