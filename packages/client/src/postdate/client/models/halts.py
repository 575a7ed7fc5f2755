"""Models of halts. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class HaltKind(OpenEnum):
    """What `HaltKind` may be."""

    FREEZE = "freeze"
    KILL = "kill"


class HaltMode(OpenEnum):
    """What `HaltMode` may be."""

    DRAIN = "drain"
    HOLD = "hold"


class Halt(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A current or future halt: why, by whom, and until when (null: until it is lifted)."""

    kind: HaltKind
    """A kill switch, or a freeze window."""
    mode: HaltMode
    """Whether what is due waits or still runs."""
    from_: datetime
    """When it begins."""
    until: datetime | None
    """When it ends."""
    note: str
    """Why, in a few words."""
    set_by: str
    """Who set it."""
    set_at: datetime
    """When it was set."""


class HaltList(Struct, frozen=True, kw_only=True):
    """A page of halts."""

    halts: list[Halt]
    """All halts."""
