"""What a load needs, against sums made by hand and against the page that shows them."""

import re
from pathlib import Path

import pytest

from postdate.foresight.spec.size import JOB, PAYMENT, ExpectedLoad, size
from postdate.words.error import RefusedError

PAGE = Path(__file__).parents[2] / "docs/operate/sizing.md"


def test_a_load_is_added_up() -> None:
    found = size(ExpectedLoad(jobs_per_day=1_000_000, days_ahead=10, retention_days=30))
    assert found.pending_items == 10_000_000
    assert found.pending_gb == round(10_000_000 * JOB.pending / 1e9, 1)
    assert found.finished_jobs_gb == round(30_000_000 * JOB.ended / 1e9, 1)
    assert found.payments_gb == 0
    assert found.wal_gb_per_day == round(2 * 1_000_000 * JOB.wal / 1e9, 1)
    assert found.executions_per_second_at_peak == pytest.approx(115.7, abs=0.1)


def test_payments_stay_for_ever() -> None:
    one, two = (size(ExpectedLoad(payments_per_day=1_000_000, years=years)) for years in (1, 2))
    assert two.payments_gb == pytest.approx(2 * one.payments_gb, abs=0.2)
    assert one.payments_gb == round(365 * 1_000_000 * PAYMENT.ended / 1e9, 1)


def test_nothing_negative_is_taken() -> None:
    with pytest.raises(RefusedError, match="jobs_per_day"):
        size(ExpectedLoad(jobs_per_day=-1))


def test_the_page_shows_what_the_command_prints() -> None:
    text = PAGE.read_text()
    given = ExpectedLoad(
        jobs_per_day=20_000_000, payments_per_day=1_000_000, days_ahead=5, retention_days=7
    )
    shown = dict(re.findall(r'^  "([a-z_]+)": ([\d.]+),?$', text, re.MULTILINE))
    found = size(given)
    assert {name: float(value) for name, value in shown.items()} == {
        name: getattr(found, name) for name in found.__struct_fields__
    }
    for figure in (JOB.pending, PAYMENT.pending, JOB.ended, PAYMENT.ended, JOB.wal, PAYMENT.wal):
        assert f"{figure:,}" in text
