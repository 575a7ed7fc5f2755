"""What a part of the evidence is: how it is run, and where its count is read."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from postdate_lab.evidence.record import RoundCount

SUITE_FILE: Final = "tests.xml"


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round: its number from 1, its seed, how long it may take, and where it leaves things."""

    number: int
    rounds: int
    seed: int
    minutes: float
    home: Path


class Run(msgspec.Struct, frozen=True):
    """A command of a round, with what is added to its environment."""

    words: Sequence[str]
    env: Mapping[str, str] = {}


class EvidencePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part: what it tries, its commands, and how what they leave is counted."""

    name: str
    tries: str
    """What it tries to break, as a line of the page."""
    runs: Callable[[Round], Sequence[Run]]
    count: Callable[[Path], RoundCount]
    scales: bool = False
    """Whether it takes the minutes that it is given; any other takes what it takes."""
    rounds: Callable[[float], int] = lambda _: 1
    archives: bool = False
    """Whether it leaves the raw history of a run, which is packed and checked a second time."""


def pytest(place: Round, *paths: str, env: Mapping[str, str] | None = None, only: str = "") -> Run:
    """Run tests, the long ones too, one after the other."""
    words = [
        sys.executable, "-m", "pytest", "-q", "-m", "soak or not soak", "-rs",
        "-p", "no:cacheprovider",
        f"--junitxml={place.home / SUITE_FILE}", *(["-k", only] if only else []), *paths,
    ]  # fmt: skip
    return Run(words, dict(env or {}))


def count_tests(home: Path) -> RoundCount:
    """Count the tests of a round; a skipped one is named with its reason."""
    counted = RoundCount(of="tests")
    path = home / SUITE_FILE
    for case in ET.parse(path).iter("testcase") if path.exists() else ():  # noqa: S314 - ours
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        skipped = case.find("skipped")
        if skipped is not None:
            counted.skipped.append(f"{name}: {skipped.get('message', '')}")
            continue
        counted.tries += 1
        if case.find("failure") is not None or case.find("error") is not None:
            counted.wrong += 1
            counted.notes.append(f"{name} failed")
    return counted


def count_log(home: Path, name: str, of: str, *members: str) -> RoundCount:
    """Count what a long test logs: a JSON line for each round, with how many and what was wrong."""
    counted = count_tests(home)
    counted.figures["tests"] = counted.tries
    counted.tries, counted.of = 0, of
    path = home / name
    for text in path.read_text().splitlines() if path.exists() else ():
        line = json.loads(text)
        counted.tries += sum(line[member] for member in members)
        counted.wrong += len(line["wrong"])
        counted.notes += line["wrong"]
    return counted
