"""`python -m postdate_lab.suites`: run what can be had, and write the page."""

import argparse
import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import msgspec

from postdate_lab.suites import calendar_suite, dateutil_suite, server_suite
from postdate_lab.suites.result import MissingSuiteError, SuiteResult, page

if TYPE_CHECKING:
    from collections.abc import Callable

UNEXPLAINED: Final = 7
PAGE: Final = Path("docs/evidence/suites.md")

HEAD: Final = """<!-- Written by `python -m postdate_lab.suites`: do not edit. -->

# Suites that nobody here wrote

Each suite is adapted to Postdate and run whole. A case agrees, or differs for a reason that is
stated below, or is a defect. What a registry carries is fetched by its name; the others lie in the
directory that `POSTDATE_SUITES` names, each under the name of its repository.

| suite | source | cases | agree | differ, explained | not explained |
|---|---|---|---|---|---|"""


def main(words: list[str]) -> int:
    """Run every suite; return 7 if a difference has no reason."""
    asked = argparse.ArgumentParser(prog="python -m postdate_lab.suites")
    asked.add_argument("--out", type=Path, help="write the results as JSON")
    asked.add_argument("--page", type=Path, default=PAGE)
    given = asked.parse_args(words)
    with TemporaryDirectory(prefix="pds") as name:
        work = Path(name)
        work.chmod(0o711)
        results = _local(work) + asyncio.run(_served(work))
    if given.out:
        given.out.write_bytes(msgspec.json.encode(results))
    given.page.write_text(page(results, HEAD))
    for each in results:
        print(f"{each.name}: {each.missing or f'{each.agreed} of {each.cases} agree'}")
        for case in each.unexplained:
            print(f"  not explained: {case}")
    return UNEXPLAINED if any(each.unexplained for each in results) else 0


def _local(work: Path) -> list[SuiteResult]:
    suites: dict[str, Callable[[], SuiteResult]] = {
        "libical": calendar_suite.run,
        "dateutil": lambda: dateutil_suite.run(work),
    }
    results = []
    for name, run in suites.items():
        try:
            results.append(run())
        except MissingSuiteError as missing:
            results.append(SuiteResult(name=name, source="", missing=str(missing)))
    return results


async def _served(work: Path) -> list[SuiteResult]:
    suites: dict[str, server_suite.ServerSuite] = {
        "JSONTestSuite": server_suite.json_texts,
        "naughty strings": server_suite.strings,
        "llhttp": server_suite.requests,
    }
    results = []
    async with server_suite.serving(work) as server:
        for name, run in suites.items():
            try:
                results.append(await run(server))
            except MissingSuiteError as missing:
                results.append(SuiteResult(name=name, source="", missing=str(missing)))
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
