"""The tests that the guide to testing shows are run as its readers would run them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from postdate.client.pytest_plugin import PostdateServer, TestTenant

GUIDE = Path(__file__).parents[2] / "docs/guides/testing.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shown() -> dict[str, Callable[..., None]]:
    """Return the tests of the guide by name."""
    known: dict[str, Any] = {}
    for block in BLOCK.findall(GUIDE.read_text()):
        exec(compile(block, str(GUIDE), "exec"), known)
    return {name: each for name, each in known.items() if name.startswith("test_")}


def test_the_guide_shows_tests() -> None:
    assert len(shown()) == 2


def test_a_year_of_rent(postdate_server: PostdateServer) -> None:
    shown()["test_the_rent_is_paid_for_a_year"](postdate_server)


def test_a_worker_that_dies(postdate: TestTenant) -> None:
    shown()["test_a_reminder_is_sent_again_when_its_worker_dies"](postdate)


def test_tenants_share_nothing_but_the_server(postdate_server: PostdateServer) -> None:
    made = [postdate_server.new_tenant() for _ in range(5)]
    assert len({each.key for each in made}) == 5
    made[0].advance("1d")
    assert made[0].now > made[1].now
    for each in made:
        each.client.close()
