"""Lanes: a tenant's queues of jobs, and the buckets each of them uses."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from postdate.core.field import (
    Created,
    MaxRunning,
    Name,
    PausedAt,
    PausedBy,
    PausedNote,
    RatePerSecond,
)
from postdate.core.ids import BUCKETS
from postdate.core.shape import Spec, View

DEFAULT: Final = "default"
"""The lane of a job that names none."""

DEFAULT_PRIORITY: Final = 5
"""The priority of a job that gives none."""

PRIORITY_STEP: Final = timedelta(minutes=1)
"""The waiting time that one step of priority is worth."""

KEY_WIDTH: Final = 16
"""In how many buckets jobs with a key lie: it never changes, so that a key stays in one bucket."""

LaneKind = Literal["push", "pull"]
"""Who takes a lane's jobs: our own handlers, or workers that ask for them over HTTP."""

PULLED: Final = "worker"
"""The one type of destination whose jobs wait to be asked for."""


LaneName = Annotated[
    Name,
    Meta(
        description="The queue of jobs it belongs to: the unit of fairness, limits and pausing.",
        examples=["mail"],
    ),
]
Weight = Annotated[
    int, Meta(ge=1, le=100, description="Its share relative to other lanes.", examples=[1])
]
Width = Annotated[
    int,
    Meta(ge=1, le=64, description="Number of buckets it uses; can only grow.", examples=[8]),
]
Priority = Annotated[int, Meta(ge=0, le=9)]
Count = Annotated[int, Meta(examples=[2])]


RateBurst = Annotated[
    Annotated[int, Meta(ge=1, le=1_000_000)] | None,
    Meta(
        description="How many of a key may start at once after a rest; null is one.",
        examples=[10],
    ),
]
KeyText = Annotated[str, Meta(min_length=1, max_length=255)]
KeyWeights = Annotated[
    dict[KeyText, Annotated[int, Meta(ge=1, le=100)]],
    Meta(
        max_length=100,
        description="How many jobs these keys run in a turn; any other runs one.",
        examples=[{"acme": 3}],
    ),
]


class PerKey(Spec, kw_only=True, omit_defaults=True):
    """What holds for each key of a lane's jobs. Keys take turns."""

    max_running: Annotated[
        MaxRunning, Meta(description="How many of a key run at a time; null is no limit.")
    ] = None
    rate_per_second: Annotated[
        RatePerSecond, Meta(description="How many of a key start in a second; null is no limit.")
    ] = None
    rate_burst: RateBurst = None
    weight: KeyWeights = msgspec.field(default_factory=dict)


PerKeyField = Annotated[
    PerKey | None,
    Meta(
        description="Limits and turns of each `key`; null: a key means nothing.",
        examples=[{"max_running": 1, "rate_per_second": 5, "rate_burst": 10}],
    ),
]


class LaneSpec(Spec, kw_only=True):
    """A lane; the first job that names one creates it."""

    weight: Weight = 1
    width: Width = 8
    max_running: MaxRunning = None
    rate_per_second: RatePerSecond = None
    per_key: PerKeyField = None


class NewLane(LaneSpec, kw_only=True):
    """A lane that is there before its first job."""

    lane: LaneName


class LanePauseBody(Spec, kw_only=True):
    """Why it is paused."""

    note: Annotated[
        Annotated[str, Meta(max_length=500)] | None,
        Meta(description="Why, in a few words.", examples=["ticket 812"]),
    ] = None


class LaneView(View, frozen=True, kw_only=True):
    """A lane. With `counts_capped` the counts are lower bounds."""

    lane: LaneName
    weight: Weight
    width: Width
    max_running: MaxRunning
    rate_per_second: RatePerSecond
    per_key: PerKeyField
    paused: Annotated[
        bool, Meta(description="Whether nothing of the lane is started.", examples=[False])
    ]
    paused_at: PausedAt
    paused_note: PausedNote
    paused_by: PausedBy
    created_at: Created
    ready: Annotated[Count, Meta(description="How many are due and wait for a worker.")]
    pending: Annotated[Count, Meta(description="How many wait for their instant.")]
    running: Annotated[Count, Meta(description="How many run now.")]
    unknown: Annotated[
        Count, Meta(description="Number of jobs that wait for a person to resolve them.")
    ]
    counts_capped: Annotated[
        bool,
        Meta(
            description="Whether counting stopped early because there are very many.",
            examples=[False],
        ),
    ]


def kind_of(destination_type: str) -> LaneKind:
    """Return which of a name's two lanes a job belongs to."""
    return "pull" if destination_type == PULLED else "push"


def buckets(tenant_id: int, name: str, width: int) -> list[int]:
    """Choose `width` buckets for a lane: the choice never changes, and widening only adds some.

    Few buckets make a lane with little work cheap to watch; many spread a busy one. The choice goes
    by the name, so that a job whose priority changes stays in a bucket of its lane. SQL chooses the
    same: `client_lane` in database/functions/client_job.sql.
    """

    def rank(bucket: int) -> bytes:
        return sha256(f"{tenant_id}/{name}/{bucket}".encode()).digest()

    return sorted(sorted(range(BUCKETS), key=rank)[:width])


def key_position(key: str) -> int:
    """Return which of its lane's buckets for jobs with a key holds this one: always the same."""
    return sha256(key.encode()).digest()[-1] % KEY_WIDTH


def key_id(tenant_id: int, lane: str, key: str) -> int:
    """Return the number of a key in its lane, as SQL counts it (`lane_key_id`)."""
    digest = sha256(f"{tenant_id}/{lane}/{key}".encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def order_at(due_at: datetime, priority: int) -> datetime:
    """Return by which instant a due job takes its turn among those of other priorities."""
    return due_at + priority * PRIORITY_STEP
