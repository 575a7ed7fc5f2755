"""An operation of the API: its route, and how arguments become a request to it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import NoneType
from typing import Any, Final, get_args

from msgspec import UNSET

from postdate.client import encoding

KEY: Final = "idempotency_key"


@dataclass(frozen=True)
class Operation:
    """One route, and what a client must know to call it and to call it again.

    `declared` has its arguments and says what it returns. `batch`: the field whose items have an
    idempotency key each. `repeatable`: it may be sent again when nobody knows whether it was done.
    `columns`: the fields that a table of its list shows.
    """

    name: str
    method: str
    path: str
    declared: Callable[..., object]
    batch: str | None = None
    repeatable: bool = True
    internal: bool = False
    columns: tuple[str, ...] = ()

    @cached_property
    def signature(self) -> inspect.Signature:
        """Return the arguments that a caller gives."""
        declared = inspect.signature(self.declared)
        return declared.replace(parameters=list(declared.parameters.values())[1:])

    @property
    def returns(self) -> Any:
        """Return the type of the answer."""
        return self.signature.return_annotation

    @property
    def keyed(self) -> bool:
        """Return whether an idempotency key of its own makes it safe to repeat."""
        return self.batch is None and KEY in self.signature.parameters

    def takes(self, name: str) -> bool:
        """Return whether there is such an argument."""
        return name in self.signature.parameters

    def address(self, given: Mapping[str, Any]) -> str:
        """Fill the parts of the path."""
        parts = {name: value for name, value in given.items() if self._in_path(name)}
        return encoding.path(self.path, parts)

    def fields(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what goes into the query or the body, by its name in the API."""
        return {
            _wire(name): value
            for name, value in given.items()
            if name != KEY and not self._in_path(name)
        }

    @cached_property
    def has_body(self) -> bool:
        """Return whether the fields go into a body; without any there is none."""
        return self.method != "GET" and bool(self.fields(self.signature.parameters))

    @cached_property
    def nulls(self) -> frozenset[str]:
        """Return the fields in which null says something that leaving them out does not."""
        return frozenset(
            _wire(name)
            for name, each in self.signature.parameters.items()
            if each.default is UNSET
            and (each.annotation is Any or NoneType in get_args(each.annotation))
        )

    def _in_path(self, name: str) -> bool:
        return f"{{{name}}}" in self.path


def _wire(name: str) -> str:
    """Return the name of a field in the API: `from_` is `from`, a word of Python."""
    return name.removesuffix("_")
