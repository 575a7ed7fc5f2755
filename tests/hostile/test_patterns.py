"""No text makes a regular expression of ours slow: each runs in linear time."""

import re
from typing import Any

import pytest

from postdate.api.endpoints import ENDPOINTS
from postdate.http import openapi
from support.pattern_pump import Found, compiled_in_source, in_document, in_source, pumped, seconds

FEW, SOME = 8, 18
"""Repetitions between which an exponential pattern takes a thousand times longer."""

MANY, MORE = 200, 1600
"""Repetitions between which a quadratic pattern takes 64 times longer, a linear one 8 times."""

NOISE_SECONDS = 0.000_02
"""Below this a ratio says more about the machine than about the pattern."""


def growth(found: Found, shorter: str, longer: str) -> float:
    """Measure how many times longer the longer text takes."""
    return seconds(found, longer) / max(seconds(found, shorter), NOISE_SECONDS)


def slow_text(found: Found) -> str | None:
    """Give the beginning of a text that takes longer than its length explains."""
    for text in pumped(found.pattern):
        if growth(found, text(FEW), text(SOME)) > 50:
            return text(5)
        # Measured again before it is believed: a busy machine may stretch one run.
        if all(growth(found, text(MANY), text(MORE)) > 24 for _ in range(3)):
            return text(5)
    return None


def test_every_compiled_pattern_is_looked_at() -> None:
    places = {found.place for found in in_source()}
    assert len(places) >= compiled_in_source() >= 20


def test_every_pattern_runs_in_linear_time() -> None:
    # Found here and not as parameters: every worker of the suite would read the whole source.
    every = [*in_source(), *in_document(openapi.document(ENDPOINTS, "0"))]
    each_once = {found.pattern.pattern: found for found in every}.values()
    slow = {found.place: text for found in each_once if (text := slow_text(found)) is not None}
    assert slow == {}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"^[!-~]+/[!-~]+( *; *[!-~]+)*$(?!\n)", "search"),
        (r"(a+)+b", "fullmatch"),
        (r"(?:x|xy|y)*z", "match"),
        (r"\s*\w+\s*\w*\s*-", "fullmatch"),
        (rb"[0-9]+x", "search"),
    ],
)
def test_a_pattern_that_is_not_linear_is_found(pattern: Any, method: str) -> None:
    assert slow_text(Found("sample", re.compile(pattern), method)) is not None
