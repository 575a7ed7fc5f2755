"""Every recipe is a test of its own, run from the page as it stands."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from postdate.client.pytest_plugin import TestTenant

GUIDES = Path(__file__).parents[2] / "docs/guides"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def recipes(page: str) -> list[tuple[str, Callable[[TestTenant], None]]]:
    """Return the tests of a page, each with its name."""
    text = (GUIDES / page).read_text()
    names: dict[str, Any] = {}
    for block in BLOCK.findall(text):
        exec(compile(block, page, "exec"), names)
    found = [(name, each) for name, each in names.items() if name.startswith("test_")]
    assert len(found) == text.count("\n## ")
    return found


ALL = [*recipes("money-recipes.md"), *recipes("job-recipes.md")]


@pytest.mark.parametrize("recipe", [each for _, each in ALL], ids=[name for name, _ in ALL])
def test_a_recipe_gives_what_it_says(
    recipe: Callable[[TestTenant], None], postdate: TestTenant
) -> None:
    recipe(postdate)
