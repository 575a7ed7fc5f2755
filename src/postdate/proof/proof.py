"""The round of proofs: which bucket is next, and how far each chain is proved."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from postdate.database.connection.query import Connection, fetch_one, query
from postdate.event.store.seal import Chain


class ProofRound(NamedTuple):
    """The bucket to prove next, how long the round has taken so far, and its number."""

    bucket: int
    seconds: float
    round: int


class ProvedChain(msgspec.Struct, frozen=True):
    """The end of a chain, up to where it is proved, and where it is walked once more."""

    end: Chain
    proved: Chain | None
    walked: Chain | None


async def take(connection: Connection, pause_seconds: float) -> ProofRound | None:
    """Take the next bucket, unless another node took it less than a pause ago."""
    return await fetch_one(connection, ProofRound, "proof_take", pause_seconds)


async def chains(connection: Connection, buckets: Sequence[int]) -> list[ProvedChain]:
    """Read the chains of some buckets."""
    found = []
    for row in await connection.fetch(query("proof_chains"), buckets):
        tenant_id, position, digest, proved, proved_hash, walked, walked_hash = row
        known = proved is not None
        found.append(
            ProvedChain(
                Chain(tenant_id, position, digest),
                Chain(tenant_id, proved, proved_hash) if known else None,
                Chain(tenant_id, walked, walked_hash) if known else None,
            )
        )
    return found


async def remember(connection: Connection, proved: Chain, walked: Chain) -> None:
    """Remember how far a chain is proved."""
    await connection.execute(
        query("proof_remember"),
        proved.tenant_id,
        proved.position,
        proved.hash,
        walked.position,
        walked.hash,
    )
