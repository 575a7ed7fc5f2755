"""The commands of a noun: one for each operation that the client has in the noun's group."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

import cyclopts

from postdate.cli.command_table import NOUN_HELP
from postdate.cli.operation_command import OperationCommand, Sugar
from postdate.client.call import Method
from postdate.client.operation import Operation
from postdate.core.operation_name import NOUNS, command_noun, command_words

BESIDE: Final = {"job": "receipts", "payment": "receipts"}
"""Groups of the client that have operations of another noun, too."""


def noun_app(noun: str, sugar: Mapping[str, Sugar | None] | None = None) -> cyclopts.App:
    """Make the commands of a noun; `sugar` is by operation, and None leaves one to the caller."""
    app = cyclopts.App(name=noun, help=NOUN_HELP[noun])
    own = sugar or {}
    for operation, words in operations(noun):
        if operation.name not in own or own[operation.name] is not None:
            OperationCommand(operation, own.get(operation.name)).add_to(app, words)
    return app


def operations(noun: str) -> Iterator[tuple[Operation, str]]:
    """Find the operations of a noun, each with the verb of its command."""
    groups = [group for group in NOUNS if command_noun(group) == noun]
    for group in [*groups, *([BESIDE[noun]] if noun in BESIDE else [])]:
        for operation, words in group_operations(group):
            first, _, verb = words.partition(" ")
            if first == noun:
                yield operation, verb


def group_operations(group: str) -> Iterator[tuple[Operation, str]]:
    """Find the operations of a group of the client, each with its command."""
    module = import_module(f"postdate.client.calls.{group}")
    kind = getattr(module, "".join(word.capitalize() for word in group.split("_")))
    for name, method in vars(kind).items():
        if isinstance(method, Method) and method.operation:
            operation = method.operation
            yield operation, command_words(operation.name, group, name.removesuffix("_page"))


def find(noun: str, name: str) -> Operation:
    """Return the operation of a noun by its name."""
    return next(operation for operation, _ in operations(noun) if operation.name == name)


def __getattr__(name: str) -> cyclopts.App:
    """Make the commands of a noun that needs nothing of its own, when it is asked for."""
    noun = name.removesuffix("_app").replace("_", "-")
    if noun not in NOUN_HELP:
        raise AttributeError(f"there is no noun {name}")
    return noun_app(noun)
