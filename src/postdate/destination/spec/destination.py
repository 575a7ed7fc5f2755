"""Destinations: named places that jobs go to, as their handlers see them."""

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from postdate.core.limit import Limit

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")


class DestinationType(StrEnum):
    """How a destination is reached; pull workers need no destination, only their lane."""

    WEBHOOK = "webhook"
    QUEUE = "queue"


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A destination with its secrets in the clear: lives in memory, is never written down.

    `name` is None for the tenant's default, which signs calls to a bare URL. `secrets` are the keys
    to sign with: two while a secret is being rotated. `kind` says which sort of queue it is, and
    `config` what that needs to connect.
    """

    tenant_id: int
    name: str | None
    type: DestinationType
    limit: Limit
    url: str | None = None
    kind: str | None = None
    config: dict[str, Any] | None = None
    secrets: tuple[bytes, ...] = ()
    disabled: str | None = None

    def __repr__(self) -> str:
        """Return which one it is, and no secret of it."""
        return f"Destination({self.tenant_id}, {self.name!r}, {self.type.value})"


class Missing(msgspec.Struct, frozen=True):
    """There is no destination of this name."""


class Unavailable(msgspec.Struct, frozen=True):
    """A destination that cannot be read now: the database or the secret's key is missing."""

    reason: str
    elsewhere: bool = False
    """Whether another node may be able to read it."""


Resolved = Destination | Missing | Unavailable
Resolve = Callable[[int, str | None], Awaitable[Resolved]]
"""Find a tenant's destination by name, or with None the tenant's default."""

Disable = Callable[[int, str, str], Awaitable[None]]
"""Disable a tenant's destination by name, for a reason."""
