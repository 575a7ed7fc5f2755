"""I13: `/readyz` tells what works, within seconds, for reads and for writes."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from postdate_lab.chaos.evidence import Evidence, Violation
from postdate_lab.chaos.readiness import OP

TOLD_SECONDS: Final = 8.0
"""For how long it may say that something works which does not: five seconds, and two time-outs."""

BACK_SECONDS: Final = 15.0
"""For how long it may say that something does not work which does."""

Probe = dict[str, Any]


def readiness(seen: Evidence) -> Iterator[Violation]:
    """I13: what it says and what was tried differ for no longer than it takes to find out."""
    probes: dict[str, list[Probe]] = defaultdict(list)
    for line in seen.lines:
        if line.op == OP:
            probes[line.data["url"]].append(line.data)
    for url, found in probes.items():
        for noun, tried in (("reads", "read"), ("writes", "write")):
            yield from _stretches(url, found, noun, tried)


def _stretches(url: str, probes: list[Probe], noun: str, tried: str) -> Iterator[Violation]:
    """Find how long it said one thing of reads or writes while the other was true."""

    def pair(probe: Probe) -> tuple[bool | None, bool]:
        return _says(probe, noun), bool(probe[tried])

    for (said, worked), found in groupby(probes, pair):
        stretch = [each["asked"] for each in found]
        limit = TOLD_SECONDS if said else BACK_SECONDS
        seconds = stretch[-1] - stretch[0]
        if said is not None and said is not worked and seconds > limit:
            told = f"said {said} of {noun} for {seconds:.1f} s from {stretch[0]:.1f} s on"
            yield Violation("I13", url, f"{told}, and all were {worked}")


def _says(probe: Probe, noun: str) -> bool | None:
    """Return what it says of reads or of writes; None where nobody answered."""
    said = probe["said"]
    return None if said is None else bool(said["ready"] and said[noun])
