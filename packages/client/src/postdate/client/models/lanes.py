"""Models of lanes. Written by `make docs` from the endpoints."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict

from msgspec import Struct, field


class PerKey(Struct, frozen=True, kw_only=True):
    """What holds for each key of a lane's jobs. Keys take turns."""

    max_running: int | None = None
    """How many of a key run at a time; null is no limit."""
    rate_per_second: float | None = None
    """How many of a key start in a second; null is no limit."""
    rate_burst: int | None = None
    """How many of a key may start at once after a rest; null is one."""
    weight: dict[str, int] = field(default_factory=dict)
    """How many jobs these keys run in a turn; any other runs one."""


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
    per_key: PerKey | None
    """Limits and turns of each `key`; null: a key means nothing."""
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


class PerKeyParams(TypedDict, total=False):
    """What holds for each key of a lane's jobs. Keys take turns.

    `max_running`: How many of a key run at a time; null is no limit.
    `rate_per_second`: How many of a key start in a second; null is no limit.
    `rate_burst`: How many of a key may start at once after a rest; null is one.
    `weight`: How many jobs these keys run in a turn; any other runs one.
    """

    max_running: int | None
    rate_per_second: float | None
    rate_burst: int | None
    weight: Mapping[str, int]
