"""The table of operations: which method, command and example each has."""

import re
from collections.abc import Mapping
from typing import Final

from postdate.core.operation_name import command_words
from sdk.operations import Operation
from sdk.source import described

PAGE: Final = "docs/reference/client.md"
_EXAMPLE: Final = re.compile(r"\b(?:client|asking)\.(\w+)\.(\w+)\(")


def command(each: Operation) -> str:
    """Give the command that does what an operation does."""
    return command_words(each.endpoint.handler.__name__, each.group, each.name)


def examples(page: str) -> set[tuple[str, str]]:
    """Find the calls that the page shows."""
    return {(group, name) for group, name in _EXAMPLE.findall(page)}


def table(tree: Mapping[str, str]) -> str:
    """Write the table of operations."""
    found, _ = described()
    shown = examples(tree.get(PAGE, ""))
    lines = ["| operation | sync, async | command | example |", "|---|---|---|---|"]
    for each in found:
        route = f"`{each.endpoint.method} {each.endpoint.path.replace(':uuid}', '}')}`"
        example = "yes" if (each.group, each.name) in shown else "none"
        method = f"`client.{each.group}.{each.name}`"
        lines.append(f"| {route} | {method} | `postdate {command(each)}` | {example} |")
    return "\n".join(lines)
