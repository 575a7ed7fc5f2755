"""Read what pip-audit and the installed packages say: vulnerabilities, and strange licences.

`make audit` runs it. It fails for a known vulnerability, and for a licence that is neither
permissive nor listed here.
"""

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

PERMISSIVE: Final = re.compile(
    r"MIT|Apache|BSD|ISC|PSF|Python Software Foundation|PostgreSQL|0BSD|Zlib|Unlicense|CC0|MPL|HPND"
    r"|Public Domain",
    re.IGNORECASE,
)
LISTED: Final = {
    "psycopg": "LGPL-3.0: tests only, used as a library",
    "psycopg-binary": "LGPL-3.0: tests only, used as a library",
    "recurring-ical-events": "LGPL-3.0: an oracle of the recurrence tests",
    "x-wr-timezone": "LGPL-3.0: needed by recurring-ical-events, tests only",
}
"""Packages whose licence is not permissive, and why that is no problem here."""

_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def licence(found: Distribution) -> str:
    """Return what a package says of its licence."""
    expression = _first(found, "License-Expression")
    classified = [
        each.rpartition(" :: ")[2]
        for each in found.metadata.get_all("Classifier") or ()
        if each.startswith("License ::")
    ]
    text = _first(found, "License").partition("\n")[0]
    return expression or ", ".join(classified) or text or "unknown"


def _first(found: Distribution, field: str) -> str:
    return next(iter(found.metadata.get_all(field) or ()), "")


def licences(requirements: str) -> Iterator[tuple[str, str, bool]]:
    """Return each locked package that is installed with its licence, and whether that is fine."""
    for name in _PINNED.findall(requirements):
        try:
            said = licence(distribution(name))
        except PackageNotFoundError:
            continue
        yield name, said, bool(PERMISSIVE.search(said)) or name.lower() in LISTED


def vulnerabilities(report: dict[str, Any]) -> tuple[list[str], int]:
    """Return what pip-audit found, and how many packages it could not ask about."""
    packages = report["dependencies"]
    skipped = sum("skip_reason" in each for each in packages)
    found = [
        f"{each['name']} {each['version']}: {vulnerability['id']}"
        for each in packages
        for vulnerability in each.get("vulns", ())
    ]
    return found, skipped


def main(build: Path) -> int:
    """Print both lists; return the exit code."""
    rows = list(licences((build / "requirements.txt").read_text()))
    (build / "licences.txt").write_text("".join(f"{name}: {said}\n" for name, said, _ in rows))
    strange = [f"{name}: {said}" for name, said, fine in rows if not fine]
    report = json.loads((build / "audit.json").read_text())
    found, skipped = vulnerabilities(report)
    print(f"licences: {len(rows)} packages, {len(strange)} to look at", *strange, sep="\n  ")
    print(f"vulnerabilities: {len(found)}", *found, sep="\n  ")
    if skipped:
        print(f"NOT AUDITED: no advisories could be read for {skipped} packages from here")
    return 1 if strange or found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
