"""The checker: every proof over one snapshot of the database."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from postdate.account.store import repair as repair_store
from postdate.database.connection.database import Connection, Database
from postdate.ledger.prove import Proof, StepDone, attached_range
from postdate.proof import prove as store
from postdate.proof.prove import (
    CHECKS,
    MORE_CHECKS,
    STATE_CHECKS,
    STATE_NOUNS,
    LedgerFinding,
    Range,
)
from postdate.prover import catalog, functions, keys, rules
from postdate.publisher.anchor import Anchors
from postdate.publisher.verify import ChainFinding, ChainFindingKind, verify_on

CHAIN_KINDS: Final[tuple[ChainFindingKind, ...]] = (
    "missing",
    "changed",
    "rewritten",
    "cut_off",
    "unsealed",
    "repeated",
    "head",
)

STEPS: Final = (
    *CHECKS,
    *MORE_CHECKS,
    *STATE_CHECKS,
    keys.CHECK,
    rules.CHECK,
    functions.CHECK,
    catalog.CHECK,
    "chain",
)
"""What `prove` goes through, in this order."""

FINDINGS: Final = (
    *CHECKS,
    "balance_follows_entries",
    *MORE_CHECKS,
    *map(keys.finding_of, keys.SCOPES),
    rules.CHECK,
    functions.CHECK,
    catalog.CHECK,
    catalog.CLOCK_CHECK,
    store.UNREADABLE,
    *map(store.state_finding, STATE_NOUNS),
    *(f"chain_{kind}" for kind in CHAIN_KINDS),
    "overdue",
    "dead_lettered",
)
"""Every name that a finding may have; each has its section in docs/operate/findings.md."""

OWN_CHECKS: Final[Mapping[str, Callable[[Connection, Range], Awaitable[list[LedgerFinding]]]]] = {
    catalog.CHECK: catalog.check,
    functions.CHECK: functions.check,
    keys.CHECK: keys.check,
    rules.CHECK: rules.check,
}
"""The proofs that are more than a query."""

REPAIRS_SHOWN: Final = 100
"""How many repairs a proof lists, the newest first."""


async def prove(
    database: Database,
    tenant_id: int | None = None,
    anchors: Mapping[int, Anchors] | None = None,
    step: StepDone = lambda _: None,
) -> Proof:
    """Run every proof over one snapshot."""
    async with store.snapshot(database) as connection:
        return await prove_on(connection, tenant_id, anchors, step)


async def prove_on(
    connection: Connection,
    tenant_id: int | None = None,
    anchors: Mapping[int, Anchors] | None = None,
    step: StepDone = lambda _: None,
) -> Proof:
    """Run every proof over the caller's connection, which sees one snapshot."""
    where = await attached_range(connection, tenant_id)
    await store.guard(connection)
    proved, found = [], []
    for name in STEPS:
        proof = _check(connection, name, where, anchors or {})
        findings = await store.prove_safely(connection, name, proof)
        found += findings
        proved += [] if findings else [name]
        step(name)
    return Proof(proved, found, await repair_store.page(connection, tenant_id, REPAIRS_SHOWN))


async def _check(
    connection: Connection, name: str, where: Range, anchors: Mapping[int, Anchors]
) -> list[LedgerFinding]:
    if name in OWN_CHECKS:
        return await OWN_CHECKS[name](connection, where)
    if name == "chain":
        return await _chain(connection, where.tenant_id, anchors)
    if name in STATE_CHECKS:
        return await store.check_state(connection, name, where)
    return await store.check(connection, name, where)


async def _chain(
    connection: Connection, tenant_id: int | None, anchors: Mapping[int, Anchors]
) -> list[LedgerFinding]:
    report = await verify_on(connection, anchors, tenant_id=tenant_id)
    return [chain_finding(each) for each in report.findings]


def chain_finding(found: ChainFinding) -> LedgerFinding:
    """Convert a finding about a chain to the common form."""
    return LedgerFinding(
        f"chain_{found.kind}",
        found.tenant_id,
        str(found.event_id or found.position),
        f"position {found.position}: {found.detail}",
    )
