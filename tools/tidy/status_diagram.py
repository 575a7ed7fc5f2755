"""The statuses and their order as a picture."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

S = TypeVar("S", bound=StrEnum)


def diagram(moves: Mapping[S, frozenset[S]]) -> str:
    """Draw the table as a Mermaid state diagram; the first status is where a thing begins."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(moves))}"]
    for before in moves:
        lines += [f"    {before} --> {after}" for after in moves if after in moves[before]]
        if not moves[before]:
            lines.append(f"    {before} --> [*]")
    return "\n".join(lines)
