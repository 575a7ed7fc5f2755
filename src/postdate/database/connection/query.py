"""Named queries: SQL is read as SQL, from the `.sql` file beside the module that runs it."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from postdate.database.connection import pool

Connection = pool.Connection

Row = TypeVar("Row")

_NAME: Final = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_NOT_QUERIES: Final = frozenset({"functions", "migrations"})
"""Folders whose SQL is applied by `migrate`."""


def parse(text: str) -> Iterator[tuple[str, str]]:
    """Split a file at its `-- name:` lines."""
    parts = _NAME.split(text)
    return zip(parts[1::2], (body.strip() for body in parts[2::2]), strict=True)


PRODUCT: Final = "postdate"


@cache
def queries(package: str = PRODUCT) -> Mapping[str, str]:
    """Return the text of each named query of a package."""
    found: dict[str, str] = {}
    for file in _sql_files(package):
        for name, body in parse(file.read_text()):
            if name in found:
                raise ValueError(f"query {name} stands twice")
            found[name] = body
    return found


def _sql_files(package: str) -> Iterator[Path]:
    """Find the files of queries; the package may lie in several source trees."""
    for tree in import_module(package).__path__:
        for file in sorted(Path(tree).rglob("*.sql")):
            if _NOT_QUERIES.isdisjoint(file.relative_to(tree).parts):
                yield file


def query(name: str, package: str = PRODUCT) -> str:
    """Return the text of a named query; a tool with its own tables names its package."""
    return queries(package)[name]


class Reader(Protocol):
    """What reads rows: a connection, or a reader that combines the reads of several."""

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read rows."""
        ...

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first row."""
        ...

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Read the first value of the first row."""
        ...


async def fetch_all(
    reader: Reader,
    kind: Callable[..., Row],
    name: str,
    *arguments: object,
    timeout: float | None = None,
) -> list[Row]:
    """Run a named query and build a `kind` from each row."""
    found = await reader.fetch(query(name), *arguments, timeout=timeout)
    return [kind(*row) for row in found]


async def fetch_one(
    reader: Reader,
    kind: Callable[..., Row],
    name: str,
    *arguments: object,
    timeout: float | None = None,
) -> Row | None:
    """Run a named query and build a `kind` from its only row, or return None."""
    row = await reader.fetchrow(query(name), *arguments, timeout=timeout)
    return None if row is None else kind(*row)
