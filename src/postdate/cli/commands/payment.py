"""`postdate payment`: what payments have beside their operations: times, retries and waits."""

from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import GivenOptions, Sugar
from postdate.cli.sugar import WHEN, extra, take_time, wait_command

RETRY = extra("retry_until", str | None, "With at_execution: how long to retry without funds.")


def _fill_new(given: GivenOptions, fields: GivenOptions) -> None:
    take_time(given, fields, "scheduled_time", needed=True)
    if (until := given.pop("retry_until", None)) is not None:
        fields["on_insufficient"] = {"retry_until": until}


payment_app = noun_app(
    "payment",
    {
        "schedule_payment": Sugar(adds=(*WHEN, RETRY), fill=_fill_new),
        "reschedule_payment": Sugar(
            adds=WHEN,
            fill=lambda given, fields: take_time(given, fields, "scheduled_time", needed=True),
        ),
    },
)
_WAIT = wait_command(find("payment", "get_payment"), find("payment", "list_payments"), "payment")
_WAIT.add_to(payment_app, "wait")
