"""Lanes: a tenant's queues of jobs, and the buckets each of them uses."""

import re
from hashlib import sha256
from typing import Final, Literal

from postdate.core.ids import BUCKETS

DEFAULT: Final = "default"
"""The lane of a job that names none."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")
NAME_RULE: Final = "A lane has 1 to 63 of A-Z a-z 0-9 _ . : - and begins with A-Z 0-9."

Kind = Literal["push", "pull"]
"""Who takes a lane's jobs: our own handlers, or workers that ask for them over HTTP."""

PULLED: Final = "worker"
"""The one type of destination whose jobs wait to be asked for."""


def kind_of(destination_type: str) -> Kind:
    """Return which of a name's two lanes a job belongs to."""
    return "pull" if destination_type == PULLED else "push"


def buckets(lane_id: int, width: int) -> list[int]:
    """Choose `width` buckets for a lane: the choice never changes, and widening only adds some.

    Few buckets make a lane with little work cheap to watch; many spread a busy one. SQL chooses
    the same: `client_lane` in database/functions/client_job.sql.
    """

    def rank(bucket: int) -> bytes:
        return sha256(f"{lane_id}/{bucket}".encode()).digest()

    return sorted(sorted(range(BUCKETS), key=rank)[:width])
