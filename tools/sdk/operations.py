"""Every operation of the API as a method of the client."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import inspect

from postdate.http.endpoint import AnyEndpoint
from postdate.http.route_table import parameters_of
from postdate.resource.resource import declared_by
from sdk import names
from sdk.shapes import ITEMS, Field, Shapes, bare, field_text, struct

ONCE: Final = frozenset({
    "claim_jobs", "test_destination", "redrive_dead_letters", "purge_dead_letters", "cancel_jobs",
    "reschedule_jobs",
})  # fmt: skip
"""Operations whose answer is lost when they are done twice: the client does not repeat them."""


@dataclass
class Operation:
    """One method: where it stands, what it takes and what it gives."""

    group: str
    name: str
    endpoint: AnyEndpoint
    path: list[Field]
    query: list[Field]
    body: list[Field]
    returns: str
    needs: set[str] = field(default_factory=set)
    items: tuple[str, ...] = ()
    item_type: str = ""

    @property
    def constant(self) -> str:
        """Name the value that describes it."""
        return self.endpoint.handler.__name__.upper()

    @property
    def batch(self) -> str | None:
        """Name the field with the items that need a key each."""
        return self.body[0].wire if self.endpoint.body in ITEMS else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns of a list that its noun declares."""
        declared = declared_by(self.endpoint.handler)
        return declared.resource.columns if declared and declared.kind == "list" else ()

    @property
    def keyed(self) -> bool:
        """Say whether a key makes it safe to repeat."""
        return self.endpoint.idempotency is not None

    @property
    def repeatable(self) -> bool:
        """Say whether it may be sent again when nobody knows whether it was done."""
        return self.endpoint.handler.__name__ not in ONCE


def operations(endpoints: Sequence[AnyEndpoint], shapes: Shapes) -> list[Operation]:
    """Describe every operation; two of one name are a mistake."""
    found: dict[tuple[str, str], Operation] = {}
    if gone := ONCE - {endpoint.handler.__name__ for endpoint in endpoints}:
        raise ValueError(f"no operation is called {', '.join(gone)} any more")
    for endpoint in endpoints:
        each = _operation(endpoint, shapes)
        other = found.setdefault((each.group, each.name), each)
        if other is not each:
            raise ValueError(f"{each.constant} and {other.constant} are both {each.name}")
    return list(found.values())


def _operation(endpoint: AnyEndpoint, shapes: Shapes) -> Operation:
    group, name = names.place(endpoint)
    needs: set[str] = set()
    parts: list[list[Field]] = []
    for kind in (endpoint.query, endpoint.body):
        fields, more = shapes.arguments(kind) if kind else ([], set())
        parts.append(fields)
        needs |= more
    query, body = parts
    made = Operation(group, name, endpoint, list(_path(endpoint)), query, body, "None", needs)
    if endpoint.returns is not None:
        made.returns, more = shapes.result(struct(endpoint.returns), "", "")
        made.needs |= more
        _paging(made, shapes, endpoint.returns)
    return made


def _path(endpoint: AnyEndpoint) -> Iterator[Field]:
    for name, is_uuid in parameters_of(endpoint.path):
        kind = "UUID | str" if is_uuid else "str"
        yield Field(name, kind, name, required=True, doc=field_text("", name))


def _paging(made: Operation, shapes: Shapes, returns: type[msgspec.Struct]) -> None:
    """See whether it is a list that goes on: by a cursor, or, for events, by a place."""
    if not {"cursor", "after"} & {each.wire for each in made.query}:
        return
    lists = {
        each.encode_name: kind.item_type
        for each in struct(returns).fields
        if isinstance(kind := bare(each.type), inspect.ListType)
        and isinstance(kind.item_type, inspect.StructType)
    }
    made.items = tuple(lists)
    title = shapes.models[made.returns].name
    types = [shapes.result(kind, title, name)[0] for name, kind in lists.items()]
    made.item_type = " | ".join(types)
    made.needs |= set(types)
