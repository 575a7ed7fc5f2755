"""Every kind of finding has its section: what it means, how it is repaired, or why it cannot be."""

import re
from pathlib import Path

from postdate.proof.prove import BUCKET_CHECKS, FACT_CHECKS, OPEN_CHECKS
from postdate.prover.checker import FINDINGS

PAGE = Path(__file__).parents[2] / "docs/operate/findings.md"

_SECTION = re.compile(r"^### ([a-z_]+)\n(.+?)(?=\n#|\Z)", re.MULTILINE | re.DOTALL)


def test_the_page_has_a_section_for_each_finding_and_for_nothing_else() -> None:
    sections = dict(_SECTION.findall(PAGE.read_text()))
    assert set(sections) == set(FINDINGS)
    assert all(text.strip() for text in sections.values())


def test_every_check_of_a_round_has_a_name_that_is_known() -> None:
    assert {*BUCKET_CHECKS, *OPEN_CHECKS, *FACT_CHECKS} <= set(FINDINGS)
