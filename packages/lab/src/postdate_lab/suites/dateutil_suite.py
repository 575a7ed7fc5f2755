"""dateutil's own tests of its rules, in which Postdate's engine answers for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from postdate_lab.suites.dateutil_plugin import COUNTS
from postdate_lab.suites.result import MissingSuiteError, SuiteResult, sdist

NAME: Final = "python-dateutil"
RUN_SECONDS: Final = 600

REASONS: Final = {
    "`BYWEEKNO` alone takes its day from the start, as RFC 5545 3.3.10 says of missing parts":
        "testYearlyByWeekNo: ",
    "an interval that never meets its parts: the suite wants an error from the iterator":
        "BadComboRRule",
}  # fmt: skip


def run(work: Path) -> SuiteResult:
    """Run the tests of the version that is installed."""
    place = sdist(NAME, work)
    found, counts = work / "dateutil.xml", work / "dateutil.json"
    words = [
        sys.executable, "-m", "pytest", "-q", "-p", "postdate_lab.suites.dateutil_plugin",
        "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(place),
        f"--junitxml={found.resolve()}", "tests/test_rrule.py",
    ]  # fmt: skip
    env = {**os.environ, COUNTS: str(counts.resolve())}
    subprocess.run(words, cwd=place, env=env, check=False, capture_output=True, timeout=RUN_SECONDS)
    if not found.exists() or not counts.exists():
        raise MissingSuiteError("its tests did not begin")
    return _result(found, json.loads(counts.read_text()))


def _result(found: Path, counts: dict[str, int]) -> SuiteResult:
    result = SuiteResult(name="dateutil test_rrule", source=f"{NAME} (sdist)")
    for case in ET.parse(found).iter("testcase"):  # noqa: S314 - written by the run above
        if case.find("skipped") is None:
            failed = case.find("failure")
            differs = "" if failed is None else failed.get("message", "failed")[:200]
            result.add(str(case.get("name")), differs, REASONS)
    taken = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    result.source += f"; rules answered: {taken}"
    return result
