"""The proofs of a round: tables of some buckets over one snapshot, and their chains."""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from postdate.core.ids import MAX_ID, MIN_ID, floor_id
from postdate.database.connection.database import Connection
from postdate.event.spec.chain import GENESIS
from postdate.event.store import seal
from postdate.event.store.seal import Chain
from postdate.ledger.prove import OVERDUE_SECONDS
from postdate.proof import proof as proof_store
from postdate.proof import prove as store
from postdate.proof.proof import ProvedChain
from postdate.proof.prove import FACT_CHECKS, OPEN_CHECKS, STATE_CHECKS, LedgerFinding, Range
from postdate.prover import catalog, functions, keys, rules
from postdate.prover.checker import chain_finding
from postdate.publisher.anchor import Anchors
from postdate.publisher.verify import ChainCheck, slipped_in

RECENT_MS: Final = 8 * 24 * 3600 * 1000
"""How far back every round proves facts one by one; older ones are proved in shares."""

MAX_EVENTS: Final = 50_000
"""Maximum number of sealed events of one tenant that a step compares."""

MIN_WALK: Final = 500
"""How many a step goes over once more at the least."""


class FactsShare(NamedTuple):
    """Which part of the old facts a round proves again: one of a number of parts."""

    number: int
    of: int


class IdWindow(NamedTuple):
    """Facts from one id on and below another."""

    floor: UUID
    ceiling: UUID


def windows(oldest_ms: int, now_ms: int, share: FactsShare) -> list[IdWindow]:
    """Return the facts of a round: the facts of the last days, and a share of the older."""
    recent_ms = now_ms - RECENT_MS
    if share.of == 1:
        return [IdWindow(MIN_ID, MAX_ID)]
    step = max(recent_ms - oldest_ms, 0) / share.of
    number = share.number % share.of
    floor = floor_id(oldest_ms + math.floor(step * number)) if number else MIN_ID
    ceiling = floor_id(min(oldest_ms + math.ceil(step * (number + 1)), recent_ms))
    old = [IdWindow(floor, ceiling)] if floor < ceiling else []
    return [IdWindow(floor_id(recent_ms), MAX_ID), *old]


async def prove_tables(
    connection: Connection, where: Range, looked_at: Sequence[IdWindow]
) -> list[LedgerFinding]:
    """Compare open items of some buckets, and facts in some windows, with what is sealed."""
    await store.guard(connection)
    found: list[LedgerFinding] = []
    for name, proof in _proofs(connection, where, looked_at):
        found += await store.prove_safely(connection, name, proof)
    return found


def _proofs(
    connection: Connection, where: Range, looked_at: Sequence[IdWindow]
) -> Iterator[tuple[str, Awaitable[list[LedgerFinding]]]]:
    yield "overdue", store.overdue(connection, where, OVERDUE_SECONDS)
    yield "dead_lettered", store.parked(connection, where)
    for name in OPEN_CHECKS:
        yield name, store.check(connection, name, where)
    for name in STATE_CHECKS:
        yield name, store.check_state(connection, name, where)
    for window in looked_at:
        part = where.between_ids(*window)
        for name in FACT_CHECKS:
            yield name, store.check(connection, name, part)
        yield keys.CHECK, keys.check(connection, part)
        yield "chain_unsealed", _unsealed(connection, part)
    yield functions.CHECK, functions.check(connection, where)
    yield catalog.CHECK, catalog.check(connection, where)
    yield rules.CHECK, rules.check(connection, Range(where.tenant_id, where.buckets))


async def _unsealed(connection: Connection, where: Range) -> list[LedgerFinding]:
    part = seal.FactWindow(
        tenant_id=where.tenant_id,
        buckets=where.buckets,
        since=max(where.floor, await seal.floor(connection, "seal")),
        below=where.ceiling,
    )
    found = await seal.unsealed(connection, part, where.limit)
    return [chain_finding(slipped_in(*each)) for each in found]


async def _not_sharded() -> None:
    """Wait for no other database node: there is none."""


async def prove_chains(
    connection: Connection,
    buckets: Sequence[int],
    walk: Callable[[int], int],
    wait_complete: Callable[[], Awaitable[None]] = _not_sharded,
) -> tuple[int, list[LedgerFinding]]:
    """Prove what was sealed since the last time, and prove some of the rest again.

    `walk` says how many of a number of proved events that is. Gives how many events were compared.
    What a chain holds may come from a node whose commit another one does not show yet:
    `wait_complete` waits for that.
    """
    found: list[LedgerFinding] = []
    events = 0
    floor = await seal.floor(connection, "event")
    starts = await seal.starts(connection)
    chains = await proof_store.chains(connection, buckets)
    await wait_complete()
    for chain in chains:
        tenant_id = chain.end.tenant_id
        start = starts.get(tenant_id) or Chain(tenant_id, 0, GENESIS)
        count, broken = await _prove_chain(connection, chain, start, floor, walk)
        events += count
        found += broken
    return events, found


async def _prove_chain(
    connection: Connection,
    chain: ProvedChain,
    start: Chain,
    floor: UUID,
    walk: Callable[[int], int],
) -> tuple[int, list[LedgerFinding]]:
    proved = _later(chain.proved, start)
    if chain.end.position < proved.position:
        detail = f"position {chain.end.position}: it was proved up to {proved.position}"
        subject = str(chain.end.position)
        return 0, [LedgerFinding("chain_cut_off", chain.end.tenant_id, subject, detail)]
    new = ChainCheck(connection, chain.end, Anchors(), floor, proved)
    broken = await new.run(limit=MAX_EVENTS)
    old = ChainCheck(connection, new.proved, Anchors(), floor, _later(chain.walked, start))
    broken += await old.run(limit=max(MIN_WALK, walk(new.proved.position)))
    if broken:
        named = dict.fromkeys(map(chain_finding, broken))
        return new.events + old.events, list(named)
    walked = start if old.proved.position >= new.proved.position else old.proved
    if (new.proved, walked) != (chain.proved, chain.walked):
        await proof_store.remember(connection, new.proved, walked)
    return new.events + old.events, []


def _later(known: Chain | None, start: Chain) -> Chain:
    """Continue from the proved position, unless that part was detached since."""
    return start if known is None or known.position < start.position else known
