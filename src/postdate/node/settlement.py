"""The loops of the settlement role."""

from postdate.foresight.view import money_watch
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.money_watch import MoneyWatch
from postdate.foresight.view.rules import RuleBooks
from postdate.node import history
from postdate.node.node import Node
from postdate.payment.accept.warning import PaymentWarnings
from postdate.payment.change.approval import LOOK_SECONDS, MAX_EXPIRED, Approvals
from postdate.prover.meter import ProofMeter
from postdate.prover.prover import LOOK_SECONDS as LOOK_SECONDS_PROOF
from postdate.prover.prover import Prover
from postdate.runtime.loop import Loop
from postdate.settlement import halt_end as halt
from postdate.settlement.meter import SettlementMeter
from postdate.settlement.settler import MAX_LOOK, Settler


def loops(node: Node) -> list[Loop]:
    """Make the loops of the settlement role."""
    meter = SettlementMeter(node.registry, node.lateness, node.shares)
    followed = node.tracing.settled if node.tracing else None
    settler = Settler(node.database, node.runtime, node.node_id, meter, followed, reads=node.reads)
    ends = halt.HaltEnds(node.database, settler.look_everywhere, node.reads)
    approvals = Approvals(node.database, node.payment_meter, node.reads)
    prover = Prover(node.database, node.runtime, ProofMeter(node.registry))
    money = MoneyViews(node.database, RuleBooks())
    record = PaymentWarnings(node.database).record_warnings
    watch = MoneyWatch(node.registry, node.database, node.runtime, money, record)
    settling = Loop(
        "settlement",
        settler.run_once,
        limit=MAX_LOOK,
        next_due=settler.next_due,
        blocked=settler.blocked,
    )

    def reexamine(_bucket: int, _lane_id: int) -> None:
        settler.look_everywhere()
        settling.wake()

    node.reexamine["payment"].append(reexamine)
    return [
        settling,
        Loop("approvals", approvals.run_once, limit=MAX_EXPIRED, poll_seconds=LOOK_SECONDS),
        Loop("halts", ends.run_once, limit=1, poll_seconds=halt.LOOK_SECONDS),
        Loop("proof", prover.run_once, limit=1, poll_seconds=LOOK_SECONDS_PROOF),
        Loop("foresight", watch.step, limit=1, poll_seconds=money_watch.POLL_SECONDS, vital=False),
        *history.loops(node),
    ]
