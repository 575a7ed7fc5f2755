"""What is known of one round of one part: written when the round has ended, and never changed."""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final, Literal

import msgspec
import psutil

FILE: Final = "record.json"
CONFIDENT: Final = 3.0
"""None of N found, then the true rate is below 3/N with 95 % confidence: -ln(0.05) is 2.996."""

RoundVerdict = Literal["held", "violated", "not run"]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a round was run."""

    system: str
    processor: str
    cores: int
    memory_gb: int
    python: str


class RoundCount(msgspec.Struct, kw_only=True):
    """What the commands of a round have left: how much was tried, and what was wrong."""

    tries: int = 0
    of: str = ""
    """What the tries are, in words: `payments and jobs`."""
    wrong: int = 0
    figures: dict[str, float] = {}
    skipped: list[str] = []
    """What did not run, with its reason."""
    notes: list[str] = []


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one part."""

    part: str
    round: int
    commit: str
    seed: int
    minutes: float
    """The scale that was asked for."""
    began: str
    seconds: float
    load: float
    """The load average when it began: above zero, somebody else was busy too."""
    machine: Machine
    commands: list[str]
    exit_codes: list[int | None]
    """Null stands for a command that was ended because it took too long."""
    verdict: RoundVerdict
    counted: RoundCount
    archive: str = ""
    archive_sha256: str = ""
    archive_bytes: int = 0

    @property
    def bound(self) -> float | None:
        """Return below which the true rate is with 95 % confidence, where none was found."""
        tries = self.counted.tries
        return CONFIDENT / tries if tries and not self.counted.wrong else None


def verdict(codes: list[int | None], counted: RoundCount) -> RoundVerdict:
    """Judge a round: what was only skipped has not held."""
    if counted.wrong or any(code != 0 for code in codes):
        return "violated"
    return "held" if counted.tries else "not run"


def here() -> Machine:
    """Describe this machine, without its name."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cores=os.cpu_count() or 0,
        memory_gb=round(psutil.virtual_memory().total / 2**30),
        python=sys.version.split()[0],
    )


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    for line in known.read_text().splitlines() if known.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def commit(root: Path) -> str:
    """Return the commit of the tree, marked where files differ from it."""

    def git(*words: str) -> str:
        ran = subprocess.run(
            ["git", *words],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.stdout.strip()

    changed = "+changed" if git("status", "--porcelain", "--untracked-files=no") else ""
    return f"{git('rev-parse', '--short=8', 'HEAD')}{changed}"


def write(directory: Path, record: Record) -> None:
    """Write a record; it is there as a whole or not at all."""
    unfinished = directory / f"{FILE}.part"
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    unfinished.replace(directory / FILE)


def read(directory: Path) -> Record | None:
    """Read the record of a round that has ended."""
    path = directory / FILE
    return msgspec.json.decode(path.read_bytes(), type=Record) if path.exists() else None


def read_all(home: Path) -> list[Record]:
    """Read every record below a directory, by part and round."""
    found = (read(path.parent) for path in sorted(home.glob(f"*/{FILE}")))
    return sorted(filter(None, found), key=lambda each: (each.part, each.round))
