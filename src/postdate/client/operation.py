"""An operation of the API as a value: what the generated calls send."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, frozen=True)
class Operation(Generic[T]):
    """One route, and what a client must know to call it and to call it again.

    `keyed`: an idempotency key makes it safe to repeat. `batch`: the field whose items have a key
    each. `repeatable`: it may be sent again when nobody knows whether it was done. `nulls`: the
    fields in which null says something that leaving them out does not.
    """

    name: str
    method: str
    path: str
    returns: type[T]
    keyed: bool = False
    batch: str | None = None
    repeatable: bool = True
    internal: bool = False
    nulls: frozenset[str] = frozenset()
