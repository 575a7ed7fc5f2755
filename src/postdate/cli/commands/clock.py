"""`postdate clock`: advance the test clock of a tenant until it is there."""

import secrets
from typing import Any

from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.output import show
from postdate.client.operation import KEY


def _advance(call: CommandCall, _: GivenOptions) -> None:
    """Advance, and continue where an advance has more to run than one answer takes."""
    fields = call.fields
    entries: list[Any] = []
    while True:
        key = secrets.token_hex(16) if fields else None
        answer = CommandCall(call.operation, {KEY: key, **fields}).send()
        entries += answer["entries"]
        if answer["finished"]:
            break
        fields = {}
    show({**answer, "entries": entries})


clock_app = noun_app(
    "clock",
    {
        "get_test_clock": None,
        "advance_test_clock": Sugar(positional=frozenset({"by"}), act=_advance),
    },
)
OperationCommand(find("clock", "get_test_clock")).add_to(clock_app, "get", "show")
