"""Models of audit. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One change. `actor` is the id of a key, `cli` or `system`; `sequence` is its position."""

    sequence: int
    time: datetime
    type: str
    subject: str
    actor: str | None
    address: str | None
    request_id: str | None
    data: dict[str, Any]


class AuditList(Struct, frozen=True, kw_only=True):
    """Decisions in the order of the event chain.

    And where to go on: also when none follow yet.
    """

    entries: list[AuditEntry]
    next_cursor: str
    more: bool
