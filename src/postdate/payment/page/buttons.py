"""The buttons of a payment: schedule, approve, refuse, reschedule, cancel, refund."""

from functools import partial
from typing import Final

from postdate.console.button import Button
from postdate.console.form_field import FieldSpec
from postdate.console.money_form import of_account, of_payment
from postdate.console.page_request import PageRequest
from postdate.console.subject import Subject, SubjectFacts
from postdate.core.identity import Scope
from postdate.core.money import money_text


async def _read_payment(request: PageRequest) -> SubjectFacts:
    found = await request.services.payment.read.find(request.actor, request.uuid("payment_id"))
    if found is None:
        return []
    return [
        *([("Description", found.description)] if found.description else []),
        ("Amount", money_text(found.amount, found.currency)),
        ("From", found.from_account_id),
        ("To", found.to_account_id),
        ("Due", found.scheduled_time),
        ("Status", found.status),
    ]


_OfPayment = partial(Button, subject=Subject(Scope.PAYMENTS_READ, _read_payment))
_ENDS: Final = "It ends as CANCELLED, no money moves, and the held amount is released."

BUTTONS: Final = (
    Button(
        "schedule_payment",
        currency=of_account("from_account_id"),
        confirm="Schedule payment",
        means="The amount is held now and settled at the due second, unless funding says "
        "otherwise.",
        fields=(
            "from_account_id",
            "to_account_id",
            "amount",
            "scheduled_time",
            "delay_seconds",
            "description",
            FieldSpec("funding", folded=True),
        ),
        done="Payment {payment_id} is scheduled.",
        then="/payments/{payment_id}",
    ),
    _OfPayment(
        "approve_payment",
        means="It may be settled from now on. You cannot approve a payment you requested.",
        done="The payment is approved: it is settled when it is due, or now if that has passed.",
    ),
    _OfPayment(
        "refuse_payment",
        means=_ENDS,
        fields=(FieldSpec("note", required=True),),
        danger=True,
        done="The payment is refused: no money moves, and the held amount is available again.",
    ),
    _OfPayment(
        "reschedule_payment",
        means="It is settled at the new time; a held amount stays held. A payment that needs a "
        "decision is attempted again then.",
        fields=(FieldSpec("scheduled_time", label="New time", required=True),),
        done="The payment is due at {scheduled_time}.",
    ),
    _OfPayment(
        "cancel_payment",
        confirm="Cancel payment",
        means=_ENDS,
        danger=True,
        done="The payment is cancelled; the held amount is available again.",
    ),
    _OfPayment(
        "refund_payment",
        currency=of_payment,
        means="A new payment goes from the payee back to the payer, due in a second; its amount is "
        "held now. All refunds together never exceed what was paid.",
        done="The refund is scheduled as payment {payment_id}.",
    ),
)
