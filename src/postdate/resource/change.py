"""One change of a noun: its transaction, its event, and what follows the commit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

import msgspec

from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import EventData, record_event

Given = Mapping[str, Any]
"""The fields of a PATCH that were given, with their values: null is a value too."""


class Actor(Protocol):
    """The author of a change: an identity, or one of our own programs."""

    @property
    def tenant_id(self) -> int:
        """Return whose things are changed."""
        ...

    @property
    def key_id(self) -> str:
        """Return the name under which events record the author."""
        ...


A = TypeVar("A", bound=Actor)


class Program(msgspec.Struct, frozen=True):
    """A change by one of our own programs, on behalf of a tenant."""

    tenant_id: int
    key_id: str


class Changes:
    """The base of a class whose methods change a noun."""

    def __init__(self, database: Database, settings: Settings | None = None) -> None:
        self.database = database
        self.settings = settings or Settings()


@dataclass(slots=True, kw_only=True)
class Change(Generic[A]):
    """A change under way: its connection is inside the transaction, its actor the author."""

    connection: Connection
    actor: A
    kind: str
    about: Callable[[int, UUID | str], tuple[int, UUID]]
    event_fields: tuple[str, ...]
    after_commit: list[Callable[[], None]] = field(default_factory=list)

    @property
    def tenant_id(self) -> int:
        """Return whose things are changed."""
        return self.actor.tenant_id

    async def record(
        self,
        key: UUID | str,
        data: msgspec.Struct | EventData | None = None,
        kind: str | None = None,
    ) -> None:
        """Seal the event of this change: the event fields of a view, or given data."""
        if isinstance(data, msgspec.Struct):
            data = {name: msgspec.to_builtins(getattr(data, name)) for name in self.event_fields}
        subject, kind = self.about(self.tenant_id, key), kind or self.kind
        await record_event(self.connection, subject, kind, self.actor.key_id, data)

    def afterwards(self, step: Callable[[], None]) -> None:
        """Run a step once the change is committed."""
        self.after_commit.append(step)
