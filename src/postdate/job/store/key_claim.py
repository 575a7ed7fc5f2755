"""Claims where keys take rotation: find keys, ask what may start of each, and claim it."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import MIN_ID
from postdate.database.connection.database import Connection
from postdate.job.spec.retry import RetryPolicies
from postdate.job.spec.verdict import Move
from postdate.job.store import execution
from postdate.job.store.execution import ClaimedExecution
from postdate.lane.spec import key_id
from postdate.lane.store import lane_key
from postdate.lane.store.lane import Lane
from postdate.runtime.key_rotation import KeyAnswer, KeyRotation
from postdate.secret.payload_encryption import PayloadCipher


class KeyClaim(NamedTuple):
    """What a claim has taken, and the key of each job."""

    executions: list[ClaimedExecution]
    keys: dict[UUID, int]


NOTHING: Final = KeyClaim([], {})


@dataclass(slots=True, frozen=True)
class KeyClaims:
    """Claims of one holder, from one bucket's lane each, inside the caller's transaction.

    The caller forgets the rotation if the transaction does not commit.
    """

    policies: RetryPolicies
    claimed_by: UUID
    cipher: PayloadCipher | None = None

    async def take(
        self,
        connection: Connection,
        where: tuple[Lane, int, KeyRotation],
        *,
        low: datetime,
        limit: int,
        lease_seconds: float,
    ) -> KeyClaim:
        """Claim due jobs, key by key, none of them below the mark."""
        lane, bucket, rotation = where
        now = time.monotonic()
        rotation.weights = _weights(lane.tenant_id, lane.name, _pairs(lane))
        if rotation.walk_at() <= now:
            after = rotation.walk or (low, MIN_ID)
            rotation.learn_walk(await lane_key.walk(connection, bucket, lane.lane_id, after), now)
        states = rotation.choose(limit, now)
        answers = await lane_key.choose(connection, bucket, lane.lane_id, states) if states else []
        rotation.locked = len(answers) < len(states)
        if rotation.locked or not states:
            rotation.put_back(states, now)
            return NOTHING
        keys = {job_id: each.key_id for each in answers for job_id in each.subjects}
        claimed = _released(
            await execution.take(
                connection,
                lane,
                bucket,
                self.policies,
                self.cipher,
                only=list(keys),
                lease_seconds=lease_seconds,
                claimed_by=self.claimed_by,
            )
            if keys
            else [],
            answers,
        )
        await _spend(connection, bucket, lane, rotation, Counter(_started(claimed, keys)))
        taken = {each.held.job_id: (each.ready_at, each.held.token) for each in claimed}
        for state, answer in zip(states, answers, strict=True):
            rotation.learn(state, answer, taken, now)
        return KeyClaim(claimed, keys)


def _started(claimed: Sequence[ClaimedExecution], keys: Mapping[UUID, int]) -> Iterator[int]:
    """Name the key of each job that runs."""
    return (keys[each.held.job_id] for each in claimed if each.delivery is not None)


def _released(
    claimed: Sequence[ClaimedExecution], answers: Sequence[KeyAnswer]
) -> list[ClaimedExecution]:
    """Give jobs straight back whose leases ran out beyond a lower limit."""
    surplus = {job_id for each in answers for job_id in each.surplus}
    back = Move(seconds=0.0)
    return [
        msgspec.structs.replace(each, delivery=None, verdict=each.verdict or back)
        if each.held.job_id in surplus
        else each
        for each in claimed
    ]


async def _spend(
    connection: Connection, bucket: int, lane: Lane, rotation: KeyRotation, counts: Counter[int]
) -> None:
    """Count starts against the rates of keys, less what earlier claims give back."""
    if lane.per_key is None or lane.per_key.rate_per_second is None:
        return
    counts.subtract(rotation.take_refunds())
    if counts:
        await lane_key.spend(connection, bucket, lane.lane_id, counts)


def _pairs(lane: Lane) -> tuple[tuple[str, int], ...]:
    return () if lane.per_key is None else tuple(lane.per_key.weight.items())


@lru_cache(maxsize=1024)
def _weights(tenant_id: int, lane: str, pairs: tuple[tuple[str, int], ...]) -> Mapping[int, int]:
    return {key_id(tenant_id, lane, key): weight for key, weight in pairs}
