"""`postdate api`: call any operation of the API by its name, even without its own command."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated

from cyclopts import Parameter

from postdate.cli.noun import group_operations
from postdate.cli.option import read_json
from postdate.cli.output import UsageError, show
from postdate.cli.remote import call
from postdate.client import encoding
from postdate.client.operation import Operation
from postdate.core.operation_name import NOUNS

Pairs = Annotated[list[str], Parameter(help="NAME=VALUE; may be repeated.")]


def api(
    operation: str,
    *,
    path: Pairs = [],  # noqa: B006 - cyclopts makes a new one
    query: Pairs = [],  # noqa: B006 - cyclopts makes a new one
    body: Annotated[str | None, Parameter(help="The body, as JSON.")] = None,
    idempotency_key: str | None = None,
) -> None:
    """Call an operation of the API by its name in /schema, such as list_halts."""
    found = find(operation)
    given = _pairs(path)
    wanted = [part[1:-1] for part in found.path.split("/") if part.startswith("{")]
    if missing := [name for name in wanted if name not in given]:
        raise UsageError(f"{operation} needs --path {missing[0]}=…")
    answer = call(
        found.method,
        encoding.path(found.path, given),
        None if body is None else read_json(body),
        query=_pairs(query),
        idempotency_key=idempotency_key,
    )
    show({"done": True} if answer is None else answer)


def find(name: str) -> Operation:
    """Find an operation, or name the nearest."""
    known = {each.name: each for each in _operations()}
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"there is no operation {name}{hint}")
    return known[name]


def _operations() -> Iterator[Operation]:
    for group in NOUNS:
        yield from (operation for operation, _ in group_operations(group))


def _pairs(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{word!r} is not NAME=VALUE")
        found[name] = value
    return found
