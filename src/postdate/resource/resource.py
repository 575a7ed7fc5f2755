"""A configuration noun, declared once: its shapes, its rights, and the functions that change it."""

import functools
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass
from functools import cached_property
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_type_hints,
)
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.core.field import NextCursor
from postdate.core.ids import MIN_ID
from postdate.core.shape import Spec, View
from postdate.database.connection.database import Connection
from postdate.event.store.event import named
from postdate.http.endpoint import Access, HttpMethod, Limited
from postdate.intake.create_once import Remember, forget
from postdate.resource.change import A, Change, Changes
from postdate.words.error import Code, refuse

V = TypeVar("V", bound=View)
C = TypeVar("C", bound=Changes)
R = TypeVar("R")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

MethodKind = Literal["list", "get", "create", "change", "delete", "act"]
WhenHalted = Literal["refused", "new work", "served"]
ChangeMethod = Callable[Concatenate[C, Change[A], P], Awaitable[R]]
"""The lines about the noun itself, inside the transaction."""

Changing = Callable[Concatenate[C, A, P], Coroutine[Any, Any, R]]
"""The same as a method for everybody: it takes the author of the change and commits."""

_MARK: Final = "declared"


class CountLimit(NamedTuple):
    """How many a tenant may have: the setting, and the function that counts its present ones."""

    setting: str
    present: Callable[[Connection, int], Awaitable[int]]


@dataclass(slots=True, frozen=True, kw_only=True)
class Declared:
    """One operation of a noun, with all that its endpoint needs; see `endpoints.py`."""

    resource: "Resource[Any]"
    kind: MethodKind
    name: str
    function: Callable[..., Any]
    scope: Access
    limited: Limited
    method: HttpMethod = "GET"
    path: str = ""
    event: str = ""
    once: str | None = None
    shown_once: Collection[str] = ()
    hashed: Collection[str] = ()
    errors: tuple[Code, ...] = ()
    halted: WhenHalted = "refused"
    check: Callable[..., Awaitable[None]] | None = None

    @property
    def failpoint(self) -> str:
        """Return the name of its commit."""
        return f"{self.resource.noun}.{self.function.__name__}"

    async def run(
        self, service: Changes, actor: Any, remember: Remember[Any], *args: Any, **named: Any
    ) -> Any:
        """Change in one transaction, store the answer in it, and follow up after the commit."""
        if self.check is not None:
            await self.check(service, actor, *args, **named)
        async with service.database.write(self.failpoint) as connection:
            change = Change(
                connection=connection,
                actor=actor,
                kind=f"{self.resource.noun}.{self.event}",
                about=self.resource.about,
                event_fields=self.resource.event_fields,
            )
            if self.kind == "create":
                await self.resource.check_count(service, change)
            made = await self.function(service, change, *args, **named)
            await remember(connection, made)
        for step in change.after_commit:
            step()
        return made


class Options(TypedDict, total=False):
    """What a declared change may say besides its name.

    `once` names the operation under an Idempotency-Key. `shown_once` are the fields that a
    repeated answer does not have, `hashed` the fields of the body that are compared by their hash.
    `check` runs before the transaction, because it may take long.
    """

    once: str | None
    shown_once: Collection[str]
    hashed: Collection[str]
    errors: tuple[Code, ...]
    halted: WhenHalted
    check: Callable[..., Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[V]):
    """A configuration noun.

    `shows` is the row of its query and the answer of the API, `spec` the body that creates one,
    `patchable` the fields of the body that can be changed later, `key` the part of the path that
    names one. `columns` are those of a table, the most important first.
    Events carry the fields that spec and view share, and `more_event_fields`; `subject` names what
    they are about where that is not the noun and its key.
    """

    noun: str
    shows: type[V]
    read: Access
    write: Access
    spec: type[Spec] = Spec
    key: str = "name"
    key_type: type[str] | type[UUID] = str
    path: str = ""
    read_limited: Limited = "refused"
    write_limited: Limited = "refused"
    patchable: tuple[str, ...] = ()
    limit: CountLimit | None = None
    columns: tuple[str, ...] = ()
    more_event_fields: tuple[str, ...] = ()
    paged: bool = True
    subject: Callable[[int, str], tuple[int, UUID]] | None = None

    def __post_init__(self) -> None:
        """Refuse a declaration that names a field which is not there."""
        _check_names(self.shows, self.shows.__struct_encode_fields__, self.columns)
        _check_names(self.shows, self.shows.__struct_fields__, self.more_event_fields)
        _check_names(self.spec, self.spec.__struct_fields__, self.patchable)

    def about(self, tenant_id: int, key: UUID | str) -> tuple[int, UUID]:
        """Return the subject of events about one of a tenant."""
        if isinstance(key, UUID):
            return tenant_id, key
        return self.subject(tenant_id, key) if self.subject else named(tenant_id, self.noun, key)

    @property
    def plural(self) -> str:
        """Return the name of several."""
        return f"{self.noun}s"

    @property
    def all(self) -> str:
        """Return the path of the list."""
        return self.path or f"/{self.plural}"

    @property
    def one(self) -> str:
        """Return the path of one."""
        return f"{self.all}/{{{self.key}{':uuid' if self.key_type is UUID else ''}}}"

    @property
    def first(self) -> UUID | str:
        """Return the position before every key."""
        return MIN_ID if self.key_type is UUID else ""

    @cached_property
    def event_fields(self) -> tuple[str, ...]:
        """Return the fields that events carry."""
        known = self.spec.__struct_fields__
        shared = (each for each in self.shows.__struct_fields__ if each in known)
        return *shared, *self.more_event_fields

    @cached_property
    def page(self) -> type[msgspec.Struct]:
        """Return the shape of a list."""
        text = f"The {self.plural} of this page." if self.paged else f"All {self.plural}."
        shown = list[self.shows]  # type: ignore[name-defined]
        fields: list[Any] = [(self.plural, Annotated[shown, Meta(description=text)])]
        if self.paged:
            fields.append(("next_cursor", NextCursor))
        return self._struct("List", fields, msgspec.Struct, f"A page of {self.plural}.")

    @cached_property
    def patch(self) -> type[msgspec.Struct]:
        """Return the shape of a PATCH: fields of the spec that may be absent."""
        types = get_type_hints(self.spec, include_extras=True)
        fields = [(name, types[name] | UnsetType, UNSET) for name in self.patchable]
        doc = "What changes; an absent field stays as it is, null takes a limit away."
        return self._struct("Patch", fields, Spec, doc)

    def _struct(
        self, suffix: str, fields: list[Any], base: type[msgspec.Struct], doc: str
    ) -> type[msgspec.Struct]:
        title = "".join(word.capitalize() for word in self.noun.split("_")) + suffix
        return msgspec.defstruct(
            title,
            fields,
            bases=(base,),
            module=self.shows.__module__,
            namespace={"__doc__": doc},
            frozen=True,
        )

    def list(self, name: str | None = None) -> Callable[[F], F]:
        """Declare the method that lists: `(whose, after, limit)` to the page and its end."""
        return self._reading("list", name or f"list_{self.plural}", self.all)

    def get(self, name: str | None = None) -> Callable[[F], F]:
        """Declare the method that finds one: `(whose, key)` to the view, or None."""
        return self._reading("get", name or f"get_{self.noun}", self.one)

    def _reading(self, kind: MethodKind, name: str, path: str) -> Callable[[F], F]:
        def declare(function: F) -> F:
            declared = Declared(
                resource=self,
                kind=kind,
                name=name,
                function=function,
                scope=self.read,
                limited=self.read_limited,
                path=path,
            )
            mark(function, declared)
            return function

        return declare

    def create(
        self, name: str | None = None, *, event: str = "created", **options: Unpack[Options]
    ) -> Callable[[ChangeMethod[C, A, P, R]], Changing[C, A, P, R]]:
        """Declare the method that creates: it takes the spec and returns the answer."""
        name = name or f"create_{self.noun}"
        options.setdefault("once", self.noun)
        return self._changing("create", name, "POST", self.all, event, **options)

    def change(
        self, name: str | None = None, *, event: str = "changed", **options: Unpack[Options]
    ) -> Callable[[ChangeMethod[C, A, P, R]], Changing[C, A, P, R]]:
        """Declare the method that changes patchable fields: it takes the key and what was given."""
        name = name or f"change_{self.noun}"
        return self._changing("change", name, "PATCH", self.one, event, **options)

    def delete(
        self, name: str | None = None, *, event: str = "deleted", **options: Unpack[Options]
    ) -> Callable[[ChangeMethod[C, A, P, R]], Changing[C, A, P, R]]:
        """Declare the method that deletes: it takes the key."""
        name = name or f"delete_{self.noun}"
        return self._changing("delete", name, "DELETE", self.one, event, **options)

    def act(
        self,
        verb: str,
        event: str,
        *,
        name: str | None = None,
        method: HttpMethod = "POST",
        **options: Unpack[Options],
    ) -> Callable[[ChangeMethod[C, A, P, R]], Changing[C, A, P, R]]:
        """Declare a method that does something to one: it takes the key, and a body if any."""
        name = name or f"{verb}_{self.noun}"
        path = f"{self.one}/{verb}" if verb else self.one
        return self._changing("act", name, method, path, event, **options)

    def _changing(
        self,
        kind: MethodKind,
        name: str,
        method: HttpMethod,
        path: str,
        event: str,
        **options: Unpack[Options],
    ) -> Callable[[ChangeMethod[C, A, P, R]], Changing[C, A, P, R]]:
        def declare(function: ChangeMethod[C, A, P, R]) -> Changing[C, A, P, R]:
            declared = Declared(
                resource=self,
                kind=kind,
                name=name,
                function=function,
                scope=self.write,
                limited=self.write_limited,
                method=method,
                path=path,
                event=event,
                **options,
            )

            @functools.wraps(function)
            async def change(service: C, actor: A, *args: P.args, **named: P.kwargs) -> R:
                made: R = await declared.run(service, actor, forget, *args, **named)
                return made

            mark(change, declared)
            return cast("Changing[C, A, P, R]", change)

        return declare

    async def check_count(self, service: Changes, change: Change[Any]) -> None:
        """Refuse one more than a tenant may have."""
        if self.limit is None:
            return
        most = service.settings.integer(self.limit.setting, change.tenant_id)
        if await self.limit.present(change.connection, change.tenant_id) >= most:
            raise refuse(Code.CONFLICT, f"A tenant has at most {most} {self.plural}.")


def mark(function: Callable[..., Any], declared: Declared) -> None:
    """Say what a method or a handler was declared as."""
    vars(function)[_MARK] = declared


def declared_by(method: Callable[..., Any]) -> Declared | None:
    """Return what a method of a noun, or the handler of an endpoint, was declared as."""
    found: Declared | None = getattr(method, _MARK, None)
    return found


def _check_names(shape: type, known: Collection[str], names: Collection[str]) -> None:
    if unknown := set(names) - set(known):
        raise ValueError(f"{shape.__name__} has no field {', '.join(sorted(unknown))}")
