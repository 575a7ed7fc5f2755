"""Settlement: the loops of its role, and the commands that stop it and let it go on."""

from typing import Any

import cyclopts

from postdate.cli import history
from postdate.cli.node import Node
from postdate.cli.operator import with_database
from postdate.cli.output import Json, show
from postdate.intake.payment.approval import EXPIRE_MOST, LOOK_SECONDS, Approvals
from postdate.intake.tenant.setting import SettingChanges
from postdate.model.error import Code, RefusedError, refuse
from postdate.proof.meter import ProofMeter
from postdate.proof.prover import LOOK_SECONDS as LOOK_SECONDS_PROOF
from postdate.proof.prover import Prover
from postdate.runtime.loop import Loop
from postdate.settlement import halt_end as halt
from postdate.settlement.meter import SettlementMeter
from postdate.settlement.settler import MAX_LOOK, Settler
from postdate.settlement.stop import STOPPED
from postdate.store.connection.database import Database
from postdate.store.payment import settlement_clock as clock_store
from postdate.store.tenant import setting as setting_store

settlement_app = cyclopts.App(
    name="settlement", help="Stop settling payments on every node, and let it go on."
)


def loops(node: Node) -> list[Loop]:
    """Make the loops of the settlement role."""
    meter = SettlementMeter(node.registry, node.lateness, node.shares)
    followed = node.tracing.settled if node.tracing else None
    settler = Settler(node.database, node.runtime, node.node_id, meter, followed)
    ends = halt.HaltEnds(node.database, settler.look_everywhere)
    approvals = Approvals(node.database, node.payment_meter)
    prover = Prover(node.database, node.runtime, ProofMeter(node.registry))
    settling = Loop(
        "settlement",
        settler.run_once,
        limit=MAX_LOOK,
        next_due=settler.next_due,
        blocked=settler.blocked,
    )
    node.overdue.on("payment", settler.look_everywhere, settling.wake)
    return [
        settling,
        Loop("approvals", approvals.run_once, limit=EXPIRE_MOST, poll_seconds=LOOK_SECONDS),
        Loop("halts", ends.run_once, limit=1, poll_seconds=halt.LOOK_SECONDS),
        Loop("proof", prover.run_once, limit=1, poll_seconds=LOOK_SECONDS_PROOF),
        *history.loops(node),
    ]


@settlement_app.command(name="status")
def status(*, json: Json = False) -> None:
    """Say whether payments are being settled."""

    async def run(database: Database) -> dict[str, Any]:
        async with database.connection() as connection:
            reason = await setting_store.find(connection, STOPPED)
        return {"running": not reason, "reason": reason or None}

    show(with_database(run), as_json=json)


@settlement_app.command(name="stop")
def stop(reason: str, *, json: Json = False) -> None:
    """Settle nothing more, on any node, until `resume`; holds and timers stay as they are."""
    if not reason.strip():
        raise refuse(Code.INVALID_FIELD, "Say why settlement stops.", "reason")
    with_database(
        lambda database: SettingChanges(database).put(0, STOPPED, reason, changed_by="cli")
    )
    show({"running": False, "reason": reason}, as_json=json)


@settlement_app.command(name="resume")
def resume(*, json: Json = False) -> None:
    """Settle again; where the clock was the reason, this confirms the database's time."""

    async def run(database: Database) -> bool:
        async with database.connection() as connection:
            await clock_store.record(connection)
        try:
            await SettingChanges(database).clear(0, STOPPED)
        except RefusedError as error:
            if error.refusal.code is not Code.NOT_FOUND:
                raise
            return False
        return True

    show({"running": True, "was_stopped": with_database(run)}, as_json=json)
