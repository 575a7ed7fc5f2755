"""Every code has its section in the docs; that the sections are true is a tidy rule."""

from pathlib import Path

from postdate.words.error import EXPLANATIONS, Code

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def test_every_code_is_explained() -> None:
    assert set(EXPLANATIONS) == set(Code)


def test_every_code_has_its_section() -> None:
    lines = REFERENCE.read_text().splitlines()
    assert [line for line in lines if line.startswith("## ")] == [f"## {code}" for code in Code]
