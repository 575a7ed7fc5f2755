"""What may be done to an open payment: cancel it, give it another instant."""

from typing import Final

from postdate.console.action import Action, moment_of
from postdate.console.job_actions import WHEN
from postdate.console.same import Same
from postdate.console.visit import Visit
from postdate.model.identity import Scope
from postdate.model.payment import When


def _back(visit: Visit) -> str:
    return f"/payments/{visit.param('payment_id')}"


async def _cancel(visit: Visit) -> str:
    payment_id = visit.uuid("payment_id")
    await visit.services.payment_changes.cancel(visit.who, payment_id)
    return "The payment is cancelled and what was held for it is available again."


async def _reschedule(visit: Visit) -> str:
    payment_id = visit.uuid("payment_id")
    wanted = When(None, moment_of(visit.form, "at"))
    done = await visit.services.payment_changes.reschedule(visit.who, payment_id, wanted)
    return f"The payment is due at {done.scheduled_time:%Y-%m-%d %H:%M:%S} UTC."


ACTIONS: Final = (
    Action(
        path="/payments/{payment_id:uuid}/reschedule",
        scope=Scope.PAYMENTS_WRITE,
        title="Reschedule payment",
        button="Reschedule",
        means="It is settled at another instant; what is held stays held. One that waits for a "
        "person is tried again then.",
        back=_back,
        does=_reschedule,
        fields=(WHEN,),
        same=Same("PATCH /payments/{payment_id}", '{"scheduled_time": "<at>Z"}'),
    ),
    Action(
        path="/payments/{payment_id:uuid}/cancel",
        scope=Scope.PAYMENTS_WRITE,
        title="Cancel payment",
        button="Cancel payment",
        means="It ends as CANCELLED, no money moves, and what is held for it is released.",
        back=_back,
        does=_cancel,
        danger=True,
        same=Same("DELETE /payments/{payment_id}/cancel", "", "payment cancel {payment_id}"),
    ),
)
