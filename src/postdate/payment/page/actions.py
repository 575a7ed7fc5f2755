"""Actions on an open payment: approve, refuse, reschedule, cancel."""

from typing import Final

from postdate.console.action import REASON, Action, Field, moment_of, reason_of
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.job.page.actions import WHEN
from postdate.payment.spec.payment import When


async def _cancel(request: PageRequest) -> str:
    payment_id = request.uuid("payment_id")
    await request.services.payment.change.cancel(request.actor, payment_id)
    return "The payment is cancelled; the held amount is available again."


async def _reschedule(request: PageRequest) -> str:
    payment_id = request.uuid("payment_id")
    wanted = When(None, moment_of(request.form, "at"))
    done = await request.services.payment.change.reschedule(request.actor, payment_id, wanted)
    return f"The payment is due at {done.scheduled_time:%Y-%m-%d %H:%M:%S} UTC."


async def _approve(request: PageRequest) -> str:
    note = request.form.get("note", "").strip() or None
    await request.services.payment.approval.approve(request.actor, request.uuid("payment_id"), note)
    return "The payment is approved: it is settled when it is due, or now if that has passed."


async def _refuse(request: PageRequest) -> str:
    reason = reason_of(request, "note")
    await request.services.payment.approval.refuse(
        request.actor, request.uuid("payment_id"), reason
    )
    return "The payment is refused: no money moves, and the held amount is available again."


ACTIONS: Final = (
    Action(
        path="/payments/{payment_id:uuid}/approve",
        scope=Scope.PAYMENTS_APPROVE,
        limited="filtered",
        title="Approve payment",
        button="Approve",
        means="It may be settled from now on. You cannot approve a payment you requested.",
        back="/payments/{payment_id}",
        does=_approve,
        fields=(Field(name="note", label="Note", hint="recorded in the audit", required=False),),
        same=EquivalentCommand(
            operation="approve_payment",
            method_name="payments.approve",
            command="payment approve {payment_id}[ --reason {note}]",
            body=lambda typed: {"note": typed["note"]} if "note" in typed else {},
        ),
    ),
    Action(
        path="/payments/{payment_id:uuid}/refuse",
        scope=Scope.PAYMENTS_APPROVE,
        limited="filtered",
        title="Refuse payment",
        button="Refuse",
        means="It ends as CANCELLED, no money moves, and the held amount is released.",
        back="/payments/{payment_id}",
        does=_refuse,
        fields=(Field(name="note", label="Reason", hint=REASON.hint),),
        danger=True,
        same=EquivalentCommand(
            operation="refuse_payment",
            method_name="payments.refuse",
            command="payment refuse {payment_id} --reason {note}",
            body=lambda typed: {"note": typed["note"]},
        ),
    ),
    Action(
        path="/payments/{payment_id:uuid}/reschedule",
        scope=Scope.PAYMENTS_WRITE,
        limited="filtered",
        title="Reschedule payment",
        button="Reschedule",
        means="It is settled at the new time; a held amount stays held. A payment that needs a "
        "decision is attempted again then.",
        back="/payments/{payment_id}",
        does=_reschedule,
        fields=(WHEN,),
        same=EquivalentCommand(
            operation="reschedule_payment",
            method_name="payments.reschedule",
            command="payment reschedule {payment_id} --scheduled-time {at}",
            body=lambda typed: {"scheduled_time": typed["at"]},
        ),
    ),
    Action(
        path="/payments/{payment_id:uuid}/cancel",
        scope=Scope.PAYMENTS_WRITE,
        limited="filtered",
        title="Cancel payment",
        button="Cancel payment",
        means="It ends as CANCELLED, no money moves, and the held amount is released.",
        back="/payments/{payment_id}",
        does=_cancel,
        danger=True,
        same=EquivalentCommand(
            operation="cancel_payment",
            method_name="payments.cancel",
            command="payment cancel {payment_id}",
        ),
    ),
)
