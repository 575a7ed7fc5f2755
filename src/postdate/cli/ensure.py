"""`ensure`: create what is missing, and say where what exists differs from what was asked for."""

import sys
from typing import Any, Final

import msgspec

from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.output import UsageError, show
from postdate.cli.remote import connected
from postdate.client.operation import KEY, Operation
from postdate.core.operation_name import option_name

DIFFERS: Final = 7
"""The exit code when something exists, and is not as it was asked for."""


def ensure_command(create: Operation, group: str, name: str, sugar: Sugar) -> OperationCommand:
    """Make the command from the one that creates; `name` is the field by which a thing is known."""

    def act(call: CommandCall, _: GivenOptions) -> None:
        asked = {each: value for each, value in call.fields.items() if each != KEY}
        if name not in asked:
            raise UsageError(f"{option_name(name)} is missing: by it the {group[:-1]} is found")
        with connected() as client:
            ensured = getattr(client, group).ensure(asked.pop(name), **asked)
        _say(ensured)

    return OperationCommand(
        create,
        Sugar(
            adds=sugar.adds,
            fill=sugar.fill,
            hides=sugar.hides | {KEY},
            positional=frozenset({name}),
            act=act,
            help=(
                f"Create a {group[:-1]} unless there is one of this name; say which of the given "
                "fields differ, and change none. The exit code is 7 if one differs."
            ),
        ),
    )


def _say(ensured: Any) -> None:
    """Print what exists, and each field that is otherwise than asked."""
    differs = {name: {"asked": a, "found": f} for name, (a, f) in ensured.differs.items()}
    show({"created": ensured.created, "differs": differs, **msgspec.to_builtins(ensured.item)})
    for name, (asked, found) in ensured.differs.items():
        words = [msgspec.json.encode(each).decode() for each in (found, asked)]
        print(f"postdate: {name} is {words[0]}, not {words[1]}", file=sys.stderr)
    if differs:
        sys.exit(DIFFERS)
