"""Models of lanes. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct


class Lane(Struct, frozen=True, kw_only=True):
    """A lane. With `counts_capped` the counts are lower bounds."""

    lane: str
    weight: int
    width: int
    max_running: int | None
    rate_per_second: float | None
    paused: bool
    paused_at: datetime | None
    paused_note: str | None
    paused_by: str | None
    created_at: datetime
    ready: int
    pending: int
    running: int
    unknown: int
    counts_capped: bool


class LaneList(Struct, frozen=True, kw_only=True):
    """A page of lanes, by name."""

    lanes: list[Lane]
    next_cursor: str | None
