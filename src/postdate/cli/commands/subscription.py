"""`postdate subscription`: what subscriptions have beside their operations."""

from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import GivenOptions, OperationCommand, Sugar
from postdate.cli.sugar import TARGET, take_target


def _fill_new(given: GivenOptions, fields: GivenOptions) -> None:
    if target := take_target(given):
        fields["destination"] = target


subscription_app = noun_app(
    "subscription",
    {
        "create_subscription": Sugar(adds=TARGET, fill=_fill_new, hides=frozenset({"destination"})),
    },
)


def _switch(*, paused: bool, text: str) -> OperationCommand:
    hides = frozenset({"paused"} if paused else {"paused", "note"})
    return OperationCommand(
        find("subscription", "change_subscription"),
        Sugar(hides=hides, fill=lambda _, fields: fields.update(paused=paused), help=text),
    )


_switch(paused=True, text="Pause a subscription; its events wait.").add_to(
    subscription_app, "pause"
)
_switch(paused=False, text="Resume a subscription where it stopped.").add_to(
    subscription_app, "resume"
)
