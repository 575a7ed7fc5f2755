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
    mode: HaltMode
    from_: datetime
    until: datetime | None
    note: str
    set_by: str
    set_at: datetime


class HaltList(Struct, frozen=True, kw_only=True):
    """The halts in force or to come."""

    halts: list[Halt]
