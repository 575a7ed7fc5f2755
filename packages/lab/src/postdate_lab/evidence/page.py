"""The page of the evidence: a row for each part, what did not run, and where the histories are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from postdate_lab.evidence.record import CONFIDENT, Record

NOTES_SHOWN: Final = 10
MEGABYTE: Final = 1_000_000

_HEAD: Final = """<!-- Written by `make evidence`: do not edit. -->

# What was run, and the results

Each row is a part of `make evidence`. *Tried* counts what could have gone wrong; *wrong* is how
many did. Where none of N did, the true rate is below 3/N with 95 % confidence; that is the bound.
It holds for faults, loads and orders like those of the run, and for its commit.
[How it is run](evidence.md).

| part | what is tried | tried | wrong | bound | commit | seeds | minutes | verdict |
|---|---|---|---|---|---|---|---|---|
"""


def page(records: Sequence[Record], tries: Mapping[str, str]) -> str:
    """Write the page from the records of all rounds; `tries` says what each part tries."""
    parts: dict[str, list[Record]] = defaultdict(list)
    for each in records:
        parts[each.part].append(each)
    rows = [_row(name, tries.get(name, ""), parts[name]) for name in tries if name in parts]
    missing = [name for name in tries if name not in parts]
    return "\n".join([
        _HEAD + "\n".join(rows),
        *_machines(records),
        *_section("Wrong", _wrong(records)),
        *_section("Not run", [*(f"{name}: whole part" for name in missing), *_skipped(records)]),
        *_section("Histories", _histories(records)),
        *_section("Commands", _commands(parts)),
        "",
    ])  # fmt: skip


def _row(name: str, tries: str, rounds: Sequence[Record]) -> str:
    tried = sum(each.counted.tries for each in rounds)
    wrong = sum(each.counted.wrong for each in rounds)
    of = rounds[0].counted.of
    seeds = _range(sorted({each.seed for each in rounds}))
    commits = ", ".join(f"`{each}`" for each in sorted({each.commit for each in rounds}))
    verdicts = {each.verdict for each in rounds}
    said = next(word for word in ("violated", "not run", "held") if word in verdicts)
    minutes = sum(each.seconds for each in rounds) / 60
    return (
        f"| {name} | {tries} | {tried:,} {of} | {wrong} | {bound(tried, wrong)} | {commits} "
        f"| {seeds} | {minutes:.1f} | {said} |"
    )


def bound(tried: int, wrong: int) -> str:
    """Say below which the true rate is; nothing can be said of what went wrong."""
    if wrong or not tried:
        return "none"
    return f"{CONFIDENT / tried:.1e}"


def _range(numbers: Sequence[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _machines(records: Iterable[Record]) -> Iterator[str]:
    for machine in {each.machine: None for each in records}:
        yield ""
        yield (
            f"Machine: {machine.processor}, {machine.cores} cores, {machine.memory_gb} GB, "
            f"{machine.system}, Python {machine.python}. Load averages when rounds began: "
            + ", ".join(f"{each.load:g}" for each in records if each.machine == machine)
            + "."
        )


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    yield from ("", f"## {title}", "")
    yield from (f"- {line}" for line in found)
    if not found:
        yield "Nothing."


def _wrong(records: Iterable[Record]) -> Iterator[str]:
    for each in records:
        if each.verdict == "violated":
            notes = "; ".join(each.counted.notes[:NOTES_SHOWN])
            codes = ", ".join("took too long" if c is None else str(c) for c in each.exit_codes)
            yield f"{each.part} {each.round}: {notes or 'no note'} (exit codes {codes})"


def _skipped(records: Iterable[Record]) -> Iterator[str]:
    for each in records:
        for reason, count in _by_reason(each.counted.skipped).items():
            yield f"{each.part}: {count} skipped, {reason}"


def _by_reason(skipped: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for text in skipped:
        found[text.partition(": ")[2]] += 1
    return found


def _histories(records: Iterable[Record]) -> Iterator[str]:
    """Say where each raw history is; a checker that shares no code with the first reads it."""
    for each in records:
        if each.archive:
            yield (
                f"`build/evidence/{each.part}-{each.round}/{each.archive}`, "
                f"{each.archive_bytes / MEGABYTE:.1f} MB, SHA-256 `{each.archive_sha256}`, "
                "outside the repository"
            )


def _commands(parts: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    for name, rounds in parts.items():
        yield f"{name}: " + ", then ".join(f"`{each}`" for each in rounds[0].commands)
