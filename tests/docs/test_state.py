"""What a declaration lets a client set is sealed with the state of its row."""

import re
from importlib.resources import files
from typing import Any

import pytest

from postdate.api.endpoints import ENDPOINTS
from postdate.resource.resource import Resource, declared_by

TEXT = files("postdate.database").joinpath("functions/state.sql").read_text()
DECLARED = {
    found.resource.noun: found.resource
    for endpoint in ENDPOINTS
    if (found := declared_by(endpoint.handler)) is not None
}


def branch(noun: str) -> str:
    """Return how `state_text` writes a row of this noun."""
    found = re.search(rf"WHEN '{noun}' THEN\n(.*?)\n    (?:WHEN|END CASE)", TEXT, re.DOTALL)
    return found[1] if found else ""


def unsealed(resource: Resource[Any], text: str) -> list[str]:
    """List the fields that a client sets and sees, and that the state of a row lacks."""
    given = {*resource.event_fields, *resource.patchable} - {resource.key}
    return sorted(name for name in given if not re.search(rf"\b{name}\b", text))


@pytest.mark.parametrize("noun", sorted(DECLARED.keys() - {"halt"}))
def test_every_declared_field_is_part_of_the_sealed_state(noun: str) -> None:
    assert branch(noun)
    assert unsealed(DECLARED[noun], branch(noun)) == []


def test_a_field_that_is_not_sealed_is_found() -> None:
    destination = DECLARED["destination"]
    without = branch("destination").replace("rate_per_second", "")
    assert unsealed(destination, without) == ["rate_per_second"]


def test_all_nouns_of_configuration_are_declared() -> None:
    assert DECLARED.keys() == {
        "account", "calendar", "destination", "halt", "key", "lane", "setting", "subscription",
        "tenant",
    }  # fmt: skip
