"""The seeded bugs of `make mutants` still fit the code, and there are enough of them."""

import ast

import pytest

from mutants.catalog import MUTANTS
from mutants.mutant import ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_seeded_bug_fits_the_code(mutant: Mutant) -> None:
    text = mutant.changed(mutant.file(ROOT).read_text())
    if mutant.path.endswith(".py"):
        ast.parse(text)
    for each in mutant.tests:
        path, _, name = each.partition("::")
        found = (ROOT / "tests" / path).read_text()
        assert f"def {name}(" in found if name else found


def test_there_are_at_least_forty_and_each_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
