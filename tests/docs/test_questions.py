"""The thirty questions: the pages that answer are near the first one, and have the words."""

import re
from pathlib import Path

import pytest

from postdate.api.guide import resolve

ROOT = Path(__file__).parents[2]
HOME = "docs/index.md"
PAGE = "docs/evidence/questions.md"
CLICKS = 2
"""From the first page: the third page has the answer."""

_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (\[.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)")
QUESTIONS = _ROW.findall((ROOT / PAGE).read_text())


def links(page: str) -> set[str]:
    """Return the pages that a page links to."""
    found = {resolve(page, each)[0] for each in _LINK.findall((ROOT / page).read_text())}
    return {each for each in found if each.endswith(".md") and (ROOT / each).is_file()}


def near() -> set[str]:
    """Return the pages that are within the clicks, not by way of the answers themselves."""
    found = last = {HOME}
    for _ in range(CLICKS):
        last = {each for page in last if page != PAGE for each in links(page)} - found
        found = found | last
    return found


NEAR = near()


def test_there_are_thirty() -> None:
    assert len(QUESTIONS) == 30
    assert len(NEAR) > 50


@pytest.mark.parametrize(("question", "answer", "where"), QUESTIONS, ids=lambda text: text[:40])
def test_a_near_page_has_the_words_of_the_answer(question: str, answer: str, where: str) -> None:
    pages = {resolve(PAGE, each)[0] for each in _LINK.findall(where)}
    assert pages
    assert pages <= NEAR, question
    text = " ".join(" ".join((ROOT / page).read_text().split()) for page in sorted(pages))
    words = re.findall(r"`([^`]+)`", answer)
    assert [word for word in words if word.lower() not in text.lower()] == [], question
