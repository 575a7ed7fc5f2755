"""Halted tenants: by the kill switch, or in a freeze window."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from postdate.core.instant import instant_text
from postdate.core.shape import View
from postdate.words.error import Code, Refusal

HaltKind = Literal["kill", "freeze"]
Mode = Literal["hold", "drain"]
HaltNote = Annotated[
    str,
    Meta(min_length=1, max_length=500, description="Why, in a few words.", examples=["ticket 812"]),
]


class HaltView(View, frozen=True, kw_only=True, rename={"from_at": "from", "until_at": "until"}):
    """A current or future halt: why, by whom, and until when (null: until it is lifted)."""

    kind: Annotated[
        HaltKind, Meta(description="A kill switch, or a freeze window.", examples=["freeze"])
    ]
    mode: Annotated[
        Mode, Meta(description="Whether what is due waits or still runs.", examples=["hold"])
    ]
    from_at: Annotated[
        datetime, Meta(description="When it begins.", examples=["2031-01-01T00:00:00Z"])
    ]
    until_at: Annotated[
        datetime | None, Meta(description="When it ends.", examples=["2031-01-02T00:00:00Z"])
    ]
    note: HaltNote
    set_by: Annotated[
        str,
        Meta(description="Who set it.", examples=["0198c0de-5a4e-7abc-8def-0123456789ab"]),
    ]
    set_at: Annotated[
        datetime, Meta(description="When it was set.", examples=["2031-01-01T09:00:00Z"])
    ]


class Halt(msgspec.Struct, frozen=True):
    """One halt of a tenant: why, by whom, and from when until when (None: until it is lifted)."""

    tenant_id: int
    tenant: str
    kind: HaltKind
    mode: Mode
    from_at: datetime
    until_at: datetime | None
    note: str
    set_by: str
    set_at: datetime

    def holds_at(self, now: datetime) -> bool:
        """Return whether an instant lies in it."""
        return self.from_at <= max(now, self.set_at) and (
            self.until_at is None or now < self.until_at
        )


class Halts:
    """What a node knows of all halts: refreshed with the settings, seldom anything at all."""

    def __init__(self) -> None:
        self._by_tenant: dict[int, list[Halt]] = {}

    def replace(self, halts: Iterable[Halt]) -> None:
        """Take over what holds now."""
        by_tenant: dict[int, list[Halt]] = {}
        for halt in halts:
            by_tenant.setdefault(halt.tenant_id, []).append(halt)
        self._by_tenant = by_tenant

    def refuse(self, tenant_id: int, unix_ms: int, *, new: bool) -> Refusal | None:
        """Refuse a change of a tenant that was killed, and new work in a drain window too."""
        if tenant_id not in self._by_tenant:
            return None
        now = datetime.fromtimestamp(unix_ms / 1000, UTC)
        for halt in self._by_tenant[tenant_id]:
            if halt.holds_at(now) and (halt.kind == "kill" or (new and halt.mode == "drain")):
                return refusal(halt)
        return None


def refusal(halt: Halt) -> Refusal:
    """Return why nothing is accepted."""
    details = {"halt": halt.kind, "note": halt.note}
    if halt.until_at is not None:
        details["until"] = instant_text(halt.until_at)
    detail = "The tenant is stopped." if halt.kind == "kill" else "The tenant accepts no new work."
    return Refusal(Code.TENANT_HALTED, detail, extra=details)
