"""What the console says when something is wrong: in words, and with its pages around it."""

from collections.abc import AsyncIterator

import pytest

from conftest import Api
from support.plain_browser import Browser


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        yield opened


async def test_whoever_is_signed_in_keeps_the_pages_when_something_is_wrong(
    browser: Browser,
) -> None:
    await browser.sign_in()
    for path, status, words in (
        ("/nowhere/at/all", 404, "There is no such page."),
        ("/jobs/01a1e1c8-dd23-7001-bd68-723753d52271", 404, "There is no job"),
        ("/jobs?status=NONSENSE", 422, "is not one of PENDING, READY"),
    ):
        seen = await browser.get(path, accept="text/html")
        assert seen.status == status
        assert words in seen.text
        assert '<nav class="areas" aria-label="Areas">' in seen.text
        assert "`" not in seen.text
        part = await browser.get(path, accept="text/html", **{"hx-request": "true"})
        assert "<html" not in part.text


async def test_programs_are_told_of_an_unknown_address_as_ever(browser: Browser) -> None:
    for method in ("GET", "POST", "DELETE"):
        async with browser.session.request(method, browser.api.url + "/nowhere") as answer:
            assert (answer.status, (await answer.json())["code"]) == (404, "not_found")
    stranger = await browser.get("/nowhere", accept="text/html")
    assert stranger.headers["location"] == "/login?next=%2Fnowhere"
