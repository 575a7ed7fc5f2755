"""I13: what `/readyz` says is compared with what worked; and how far a leap shortens a delay."""

from typing import Any

import pytest

from postdate_lab.chaos.database import Snapshot
from postdate_lab.chaos.evidence import CLOCK_SECONDS, LEAP_SLACK_SECONDS, Evidence
from postdate_lab.chaos.history import HistoryLine
from postdate_lab.chaos.system_check import CHECKS


def seen_nothing() -> Evidence:
    return Evidence(lines=[], left=Snapshot())


def probes(
    seen: Evidence, seconds: int, *, ready: bool = True, writes: bool = True, wrote: bool = True
) -> None:
    """Add what is seen each second of one API process."""
    said = {"ready": ready, "reads": True, "writes": writes}
    for at in range(seconds):
        about = {"url": "http://a", "asked": float(at), "said": said, "read": True, "write": wrote}
        seen.lines.append(
            HistoryLine(at=float(at), by="run", type="info", op="readiness", data=about)
        )


def promise_writes(seen: Evidence) -> None:
    probes(seen, 10, wrote=False)


def deny_writes(seen: Evidence) -> None:
    probes(seen, 17, writes=False)


@pytest.mark.parametrize("change", [promise_writes, deny_writes])
def test_what_is_said_too_long_is_found(change: Any) -> None:
    seen = seen_nothing()
    change(seen)
    assert list(CHECKS["I13"](seen))


def test_readiness_has_some_seconds_to_find_out() -> None:
    seen = seen_nothing()
    probes(seen, 8, wrote=False)
    probes(seen, 15, writes=False)
    assert not list(CHECKS["I13"](seen))


def test_a_process_that_answers_nobody_promises_nothing() -> None:
    seen = seen_nothing()
    about = {"url": "http://a", "said": None, "read": False, "write": False}
    seen.lines += [
        HistoryLine(
            at=float(at), by="run", type="info", op="readiness", data={**about, "asked": float(at)}
        )
        for at in range(60)
    ]
    assert not list(CHECKS["I13"](seen))


def test_a_leap_of_the_database_clock_shortens_a_delay_by_seconds_at_most() -> None:
    seen = seen_nothing()
    seen.lines += [
        HistoryLine(at=1.0, by="nemesis", type="invoke", op="clock", n=1),
        HistoryLine(at=3.0, by="nemesis", type="ok", op="clock", n=1),
    ]
    assert seen.slack(2.0) == LEAP_SLACK_SECONDS
    assert seen.slack(60.0) == CLOCK_SECONDS


@pytest.mark.parametrize(("did", "found"), [("reached payment", 1), ("reached no table", 0)])
def test_a_bound_login_reaches_no_table(did: str, found: int) -> None:
    seen = seen_nothing()
    seen.lines.append(HistoryLine(at=9.0, by="nemesis", type="ok", op="guest", data={"did": did}))
    assert len(list(CHECKS["I10"](seen))) == found
