"""`python -m postdate_lab.second_checker PLACE …`: judge runs by their directories or archives."""

import sys
from pathlib import Path
from typing import Final

from postdate_lab.second_checker.check import SecondVerdict, check

VIOLATED: Final = 7
SHOWN: Final = 20


def main(arguments: list[str]) -> int:
    """Print a verdict for each run; return 7 if one of them broke an invariant."""
    if not arguments:
        print("usage: python -m postdate_lab.second_checker DIRECTORY_OR_ARCHIVE …")
        return 2
    verdicts = [check(Path(each)) for each in arguments]
    for source, verdict in zip(arguments, verdicts, strict=True):
        _show(source, verdict)
    return 0 if all(each.holds for each in verdicts) else VIOLATED


def _show(source: str, verdict: SecondVerdict) -> None:
    said = "every invariant held" if verdict.holds else f"{len(verdict.findings)} findings"
    print(f"{source}: {said}; {verdict.payments:,} payments, {verdict.jobs:,} jobs")
    for found in verdict.findings[:SHOWN]:
        print(f"- {found.invariant} {found.tenant} {found.subject}: {found.detail}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
