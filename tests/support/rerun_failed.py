"""Run what failed among all the tests once more, alone, and say so.

Three workers, their PostgreSQL servers and a browser share two cores: a test that waits for
something to happen in time can fail for want of a core. A real fault fails alone too. More than a
handful of failures is never want of a core, and is not tried again.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

MAX_TESTS: Final = 6
LAST_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
# What pytest's exit code 1 means: tests ran, and some failed.
TESTS_FAILED: Final = 1


def main() -> int:
    """Give the exit code of the second run, or 1 where there is none."""
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if not 0 < len(failed) <= MAX_TESTS or not all("::" in name for name in failed):
        return TESTS_FAILED
    print("\nfailed among the others, now once more alone:", *failed, sep="\n  ", flush=True)
    again = [sys.executable, "-m", "pytest", "-q", "-m", "not soak", *failed]
    code = subprocess.call(again)
    if code == 0:
        print("unsteady, not broken: open an issue for", *failed, sep="\n  ", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
