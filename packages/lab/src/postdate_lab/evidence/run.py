"""Run parts, each round once: what has a record of this commit and scale is not run again."""

import fcntl
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from postdate_lab.evidence import record
from postdate_lab.evidence.part import EvidencePart, Round, Run
from postdate_lab.evidence.record import Record, RoundCount
from postdate_lab.second_checker import raw

LOCK: Final = "postdate-evidence.lock"
PATIENCE: Final = 4.0
"""How many times its minutes a round may take, on top of what any may take."""

ANY_SECONDS: Final = 3600.0
END_SECONDS: Final = 20.0


class BesideAnotherError(RuntimeError):
    """Another run of the evidence is under way on this machine."""


@contextmanager
def alone(place: Path | None = None) -> Iterator[None]:
    """Hold the machine's lock; whoever finds it held is refused. The kernel lets it go."""
    path = (place or Path(tempfile.gettempdir())) / LOCK
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BesideAnotherError("another run of the evidence is under way here") from None
        yield


def run_part(
    part: EvidencePart, home: Path, root: Path, seed: int, minutes: float
) -> Iterator[Record]:
    """Run the rounds of a part that have no record yet, and give the records of all."""
    rounds = part.rounds(minutes)
    for number in range(1, rounds + 1):
        directory = home / f"{part.name}-{number}"
        known = record.read(directory)
        if known is not None and _stands(known, record.commit(root), seed + number, minutes, part):
            yield known
            continue
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        # A server that root starts runs as another user, who must get through.
        directory.chmod(0o711)
        place = Round(
            number=number, rounds=rounds, seed=seed + number, minutes=minutes, home=directory
        )
        yield _run_round(part, place, root)


def _stands(known: Record, commit: str, seed: int, minutes: float, part: EvidencePart) -> bool:
    """Return whether a record is of this very round; an edited tree is never the same."""
    same = known.commit == commit and not commit.endswith("+changed")
    return same and (not part.scales or (known.seed, known.minutes) == (seed, minutes))


def _run_round(part: EvidencePart, place: Round, root: Path) -> Record:
    began, start, load = time.time(), time.monotonic(), os.getloadavg()[0]
    commit, runs = record.commit(root), part.runs(place)
    limit = ANY_SECONDS + PATIENCE * 60 * place.minutes
    codes = [_run(each, root, place.home / "output.txt", limit) for each in runs]
    counted = _count(part, place.home)
    archive = _archive(place.home) if part.archives else None
    found = Record(
        part=part.name, round=place.number, commit=commit, seed=place.seed, minutes=place.minutes,
        began=f"{datetime.fromtimestamp(began, UTC):%Y-%m-%d %H:%M} UTC",
        seconds=round(time.monotonic() - start, 1),
        load=round(load, 1), machine=record.here(), exit_codes=codes, counted=counted,
        commands=[_shown(each, root, place.home) for each in runs],
        verdict=record.verdict(codes, counted),
        archive=archive.name if archive else "",
        archive_sha256=_sha256(archive) if archive else "",
        archive_bytes=archive.stat().st_size if archive else 0,
    )  # fmt: skip
    record.write(place.home, found)
    return found


def _run(run: Run, root: Path, output: Path, limit: float) -> int | None:
    """Run a command in a session of its own; what it says is kept. None: it took too long."""
    with output.open("ab") as file:
        process = subprocess.Popen(
            list(run.words), cwd=root, env={**os.environ, **run.env}, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a command that was broken off, asked first."""
    if process.poll() is not None:
        return
    for number in (signal.SIGINT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
            return


def _count(part: EvidencePart, home: Path) -> RoundCount:
    """Count what a round left; what cannot be read is wrong, not absent."""
    try:
        return part.count(home)
    except (OSError, ValueError, KeyError, SyntaxError, msgspec.MsgspecError) as error:
        return RoundCount(wrong=1, notes=[f"what it left cannot be read: {error}"])


def _archive(home: Path) -> Path | None:
    """Pack the raw history and remove the rest of the run, which is much larger."""
    run = home / "run"
    if not all((run / part).exists() for part in raw.PARTS):
        return None
    target = home / f"{home.name}.tar.xz"
    raw.pack(run, target)
    for heavy in ("database", "nats", *raw.PARTS):
        path = run / heavy
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _shown(run: Run, root: Path, home: Path) -> str:
    """Return the command as one would type it in a clone."""
    words = [*(f"{name}={value}" for name, value in run.env.items()), *run.words]
    text = shlex.join(words).replace(shlex.quote(sys.executable), "python")
    return text.replace(f"{home}", "DIRECTORY").replace(f"{root}/", "")


def chosen(parts: Sequence[EvidencePart], names: Sequence[str]) -> list[EvidencePart]:
    """Give the parts that are named, or all; a name that no part has is refused."""
    known = {part.name: part for part in parts}
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"{unknown[0]} is no part: known are {', '.join(known)}")
    return [part for part in parts if not names or part.name in names]
