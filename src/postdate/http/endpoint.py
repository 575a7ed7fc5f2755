"""Endpoints are values: what other modules declare and the shell serves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta
from starlette.types import Receive

from postdate.core.identity import Identity, Scope
from postdate.http.disconnect import until_gone
from postdate.words.error import Code, not_found, refuse

S = TypeVar("S")
B = TypeVar("B")
Q = TypeVar("Q")
T = TypeVar("T")

BASE: Final = "/api/v1"
Access = Scope | Literal["any", "internal"] | None
Limited = Literal["refused", "filtered", "served"]
"""How a key that is limited to accounts is treated.

`refused` where something belongs to the whole tenant, which is the default; `filtered` where the
handler shows and changes only what belongs to the accounts of the key; `served` where nothing is
about an account and nothing changes.
"""
HttpMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Reason = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=500,
        description="Reason, recorded in the event and in the audit log.",
    ),
]


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """The base of every request shape, nested ones too: unknown fields are refused by name."""


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """The base of every set of query parameters: unknown ones are refused by name."""


@dataclass(slots=True, frozen=True)
class Reply:
    """An answer that needs more than a body.

    Bytes are sent as they are (a stored answer), an async iterator is streamed until it ends.
    Both are JSON unless `headers` say otherwise. No body and no status means 204.
    """

    body: msgspec.Struct | bytes | AsyncIterator[bytes] | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Call(Generic[S, B, Q]):
    """One request, already authenticated, within its limits, and decoded."""

    services: S
    caller: Identity | None
    path: Mapping[str, UUID | str]
    query: Q
    body: B
    idempotency_key: str | None
    request_id: str
    traceparent: str | None
    draining: asyncio.Event
    receive: Receive
    headers: Mapping[bytes, bytes]
    # Counts this request among the waiting ones, until it is answered, or refuses it.
    hold_open: Callable[[], None]

    @property
    def actor(self) -> Identity:
        """Return who is calling; open and internal routes have no actor."""
        if self.caller is None:
            raise RuntimeError("an open or internal route asked who is calling")
        return self.caller

    def uuid(self, name: str) -> UUID:
        """Return a `{name:uuid}` part of the path."""
        value = self.path[name]
        if not isinstance(value, UUID):
            raise TypeError(f"the path declares {name} as text")
        return value

    def text(self, name: str) -> str:
        """Return a `{name}` part of the path, percent-decoded."""
        value = self.path[name]
        if not isinstance(value, str):
            raise TypeError(f"the path declares {name} as uuid")
        return value

    def header(self, name: str) -> str | None:
        """Return a header by its lower-case name; a value that is not ASCII counts as absent."""
        value = self.headers.get(name.encode())
        return value.decode() if value is not None and value.isascii() else None

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Compute an answer for as long as the client waits for it; nothing may be written."""
        working = asyncio.create_task(work)
        gone = asyncio.create_task(self.disconnected())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise refuse(Code.OVERLOADED, "The client has disconnected.")
            return working.result()
        finally:
            for each in (working, gone):
                each.cancel()
            await asyncio.wait({working, gone})

    async def disconnected(self) -> None:
        """Wait until the client has gone; a long poll races this against its work."""
        await until_gone(self.receive)


EndpointHandler = Callable[[Call[S, B, Q]], Awaitable[Reply | msgspec.Struct]]


@dataclass(slots=True, frozen=True, kw_only=True)
class Endpoint(Generic[S, B, Q]):
    """One route below `/api/v1`, with everything that the shell and the OpenAPI document need.

    `path` knows `{name}` (text) and `{name:uuid}`. A scope of "any" takes every valid key, None
    takes everybody, "internal" asks for X-Internal-Auth instead of a key. `halted` says how
    a change is handled while the tenant is halted: refused if its kill switch is on, refused in a
    drain window as well because it is new work, or served anyway. `limited` says how a key that is
    limited to accounts is treated.
    """

    method: HttpMethod
    path: str
    handler: EndpointHandler[S, B, Q]
    scope: Access
    returns: type[msgspec.Struct] | None
    summary: str
    tag: str
    description: str = ""
    body: type[B] | None = None
    query: type[Q] | None = None
    status: int = 200
    errors: tuple[Code, ...] = ()
    idempotency: Literal["required", "optional"] | None = None
    max_body: int | None = None
    max_seconds: float | None = None
    halted: Literal["refused", "new work", "served"] = "refused"
    limited: Limited = "refused"
    files: tuple[str, ...] = ()
    """Media types in which it can answer beside JSON."""

    @property
    def template(self) -> str:
        """Return the full path as written in logs, metrics and the OpenAPI document."""
        return BASE + self.path.replace(":uuid}", "}")


AnyEndpoint = Endpoint[Any, Any, Any]


def existing(found: T | None, noun: str, identifier: UUID | str) -> T:
    """Return what was found; None is refused as missing."""
    if found is None:
        raise not_found(noun, identifier)
    return found
