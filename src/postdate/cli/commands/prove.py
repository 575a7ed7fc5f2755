"""`postdate prove` and `postdate reconcile`: check the books."""

import sys
import time
from typing import Final

from postdate.cli.database import tenant_number, with_database
from postdate.cli.output import progress, show, wants_json
from postdate.cli.remote import server
from postdate.cli.repair_lost import RepairStep, repair_lost
from postdate.core.ids import BUCKETS
from postdate.core.instant import instant_text
from postdate.database.connection.database import Database
from postdate.job.change.unique_repair import UniqueRepair, repair_unique
from postdate.ledger import prove as ledger
from postdate.ledger.prove import Proof
from postdate.monitor.store import vital
from postdate.node.anchor import anchor_path
from postdate.node.settings import load
from postdate.proof.prove import LedgerFinding
from postdate.prover import checker
from postdate.prover.checker import STEPS
from postdate.publisher.anchor import AnchorFile, collect

CONTRADICTED: Final = 7
"""The exit code when something was found."""


def prove(*, tenant: str | None = None) -> None:
    """Compare all tables with the sealed chain and each other; exit code 7 names what differs."""
    file = AnchorFile(anchor_path(load()))
    anchors = collect(file.lines()) if file.path.exists() else {}

    async def run(database: Database) -> Proof:
        only = await tenant_number(database, tenant) if tenant else None
        began = time.monotonic()
        with progress("proving", len(STEPS)) as step:
            proof = await checker.prove(database, only, anchors, step)
        if only is None:
            await record_check(database, "prove", time.monotonic() - began, len(proof.findings))
        return proof

    proof = with_database(run, altered=True)
    if wants_json():
        show(proof)
    else:
        for name in proof.proved:
            print(f"proved      {name.replace('_', ' ')}")
        for each in proof.repairs:
            print(
                f"repaired    tenant {each.tenant_id}, {each.account_id} at "
                f"{instant_text(each.repaired_at)}: balance {each.balance:+}, held {each.held:+}, "
                f"version {each.version:+} ({each.reason})"
            )
        _print(proof.findings)
    if proof.findings:
        sys.exit(CONTRADICTED)


def reconcile(*, tenant: str | None = None, repair: bool = False) -> None:
    """Find forgotten, overdue and dead-lettered payments, lost timers, and balances that differ.

    Parameters
    ----------
    tenant
        Prove one tenant only.
    repair
        Put back the timers of jobs that have lost theirs, and request it for payments. What another
        person has requested within the last day is put back. Unique keys name the jobs again that
        wait under them. The key (POSTDATE_API_KEY) needs the scope ledger:adjust. Without this
        option nothing is written, but what would be done is said.

    """
    steps: list[RepairStep | UniqueRepair] = []

    async def run(database: Database) -> list[LedgerFinding]:
        only = await tenant_number(database, tenant) if tenant else None
        steps.extend(await repair_lost(database, only, server().api_key if repair else None))
        steps.extend(await repair_unique(database, only, write=repair))
        began = time.monotonic()
        with progress("reconciling", BUCKETS) as step:
            found = await ledger.reconcile_all(database, only, step)
        if only is None:
            await record_check(database, "reconcile", time.monotonic() - began, len(found))
        return found

    found = with_database(run)
    if wants_json():
        show({"findings": found, "repairs": steps})
    elif found or steps:
        _print(found)
        for each in steps:
            print(f"{each.done}: tenant {each.tenant_id}, {each.noun} {each.subject}")
    else:
        print("nothing to reconcile")
    if found:
        sys.exit(CONTRADICTED)


async def record_check(database: Database, name: str, seconds: float, findings: int) -> None:
    """Store the result of a full check, for metrics and alerts."""
    async with database.write() as connection:
        await vital.audited(connection, name, seconds, findings)


def _print(found: list[LedgerFinding]) -> None:
    for one in found:
        print(
            f"CONTRADICTED {one.check.replace('_', ' ')}: tenant {one.tenant_id}, "
            f"{one.subject}: {one.detail}"
        )
