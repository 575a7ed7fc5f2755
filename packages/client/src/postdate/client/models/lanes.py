"""Models of lanes. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct


class Lane(Struct, frozen=True, kw_only=True):
    """A lane. With `counts_capped` the counts are lower bounds."""

    lane: str
    """The queue of jobs it belongs to: the unit of fairness, limits and pausing."""
    weight: int
    """Its share relative to other lanes."""
    width: int
    """Number of buckets it uses; can only grow."""
    max_running: int | None
    """Maximum at a time, across all nodes; null is no limit."""
    rate_per_second: float | None
    """Maximum starts per second, across all nodes; null is no limit."""
    paused: bool
    """Whether nothing of the lane is started."""
    paused_at: datetime | None
    """When it was paused; null while it is not."""
    paused_note: str | None
    """Why it was paused."""
    paused_by: str | None
    """Who paused it."""
    created_at: datetime
    """When it was created."""
    ready: int
    """How many are due and wait for a worker."""
    pending: int
    """How many wait for their instant."""
    running: int
    """How many run now."""
    unknown: int
    """Number of jobs that wait for a person to resolve them."""
    counts_capped: bool
    """Whether counting stopped early because there are very many."""


class LaneList(Struct, frozen=True, kw_only=True):
    """A page of lanes."""

    lanes: list[Lane]
    """The lanes of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""
