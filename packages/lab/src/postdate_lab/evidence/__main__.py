"""`python -m postdate_lab.evidence`: what `make evidence` runs."""

import argparse
import random
import sys
from pathlib import Path
from typing import Final

from postdate_lab.evidence import record
from postdate_lab.evidence.page import page
from postdate_lab.evidence.parts import PARTS
from postdate_lab.evidence.run import BesideAnotherError, alone, chosen, run_part

VIOLATED: Final = 7
REFUSED: Final = 2
SEED: Final = "seed.txt"


def main(words: list[str]) -> int:
    """Run what is asked for and write the page; return 7 if anything did not hold."""
    asked = _asked(words)
    if asked.list:
        print("\n".join(f"{part.name:18}{part.tries}" for part in PARTS))
        return 0
    try:
        with alone():
            return _run(asked)
    except (BesideAnotherError, ValueError) as refused:
        print(refused, file=sys.stderr)
        return REFUSED


def _asked(words: list[str]) -> argparse.Namespace:
    asked = argparse.ArgumentParser(prog="python -m postdate_lab.evidence")
    asked.add_argument("--parts", default="", help="names, separated by commas or spaces; all")
    asked.add_argument("--minutes", type=float, default=60.0, help="of each part that scales")
    asked.add_argument("--seed", type=int, help="of the first round; drawn once, and kept")
    asked.add_argument("--home", type=Path, default=Path("build/evidence"), help="state and logs")
    asked.add_argument("--page", type=Path, default=Path("docs/evidence/record.md"))
    asked.add_argument("--list", action="store_true", help="name the parts and run nothing")
    return asked.parse_args(words)


def _run(asked: argparse.Namespace) -> int:
    root, home = Path.cwd(), asked.home.resolve()
    parts = chosen(PARTS, asked.parts.replace(",", " ").split())
    home.mkdir(parents=True, exist_ok=True)
    seed = _seed(home, asked.seed)
    held = True
    for part in parts:
        print(f"{part.name}: {part.tries}", flush=True)
        for each in run_part(part, home, root, seed, asked.minutes):
            held &= each.verdict != "violated"
            tried = f"{each.counted.tries:,} {each.counted.of}, {each.counted.wrong} wrong"
            print(f"  {each.round}: {each.verdict}; {tried}; {each.seconds:.0f} s", flush=True)
            _write(asked.page, home)
    print(f"written to {asked.page}")
    return 0 if held else VIOLATED


def _seed(home: Path, given: int | None) -> int:
    """Return the seed of this directory: a run that goes on uses the one that it began with."""
    path = home / SEED
    if given is not None or not path.exists():
        path.write_text(str(random.randrange(10**6) if given is None else given))
    return int(path.read_text())


def _write(target: Path, home: Path) -> None:
    tries = {part.name: part.tries for part in PARTS}
    target.write_text(page(record.read_all(home), tries))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
