"""A session of the console is served by every node, and ends on all of them."""

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from conftest import Api, eventually
from postdate.console.page_request import NOTICE
from postdate.console.session import COOKIE, Sessions
from postdate.core.identity import Identity
from postdate.key.authentication.identity import Identities
from postdate.key.change import session as session_intake
from postdate.key.change.session import ConsoleSessions
from support.plain_browser import Browser
from support.replica import api_over


@pytest.fixture
async def other(api: Api) -> AsyncIterator[Api]:
    """Another node on the same database."""
    async with api_over(api.node.database, api.tenant) as found:
        yield found


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as found:
        yield found


async def test_another_node_serves_the_pages_forms_and_notices_of_a_session(
    browser: Browser, other: Api
) -> None:
    await browser.sign_in()
    made = {"destination": {"type": "worker"}, "lane": "mail", "delay_seconds": 600}
    assert (await browser.api.call("POST", "/jobs", made)).status == 201
    form = (await browser.get("/lanes/mail/pause")).hidden
    browser.api = other
    assert (await browser.get("/lanes")).status == 200
    forged = await browser.post("/lanes/mail/pause", form | {"note": "x", "csrf": "0" * 64})
    assert forged.status == 403
    done = await browser.post("/lanes/mail/pause", form | {"note": "x"})
    assert (done.status, NOTICE in done.cookies) == (303, True)
    packed = urlsafe_b64decode(done.cookies[NOTICE].value + "===")
    assert b"mail" not in packed, "a notice may name a new key: the cookie is encrypted"
    # The page that tells of it may come from yet another node, and tells it once.
    async with api_over(other.node.database, other.tenant) as third:
        browser.api = third
        assert "Lane mail is paused: none of its jobs" in (await browser.get("/lanes")).text
        assert "Lane mail is paused: none of its jobs" not in (await browser.get("/lanes")).text


async def test_a_notice_that_no_node_wrote_is_not_shown(browser: Browser) -> None:
    await browser.sign_in()
    cookie = next(each for each in browser.session.cookie_jar if each.key == COOKIE)
    forged = f"{cookie.key}={cookie.value}; {NOTICE}=UGF5IG1lLg.{'0' * 64}"
    seen = await browser.get("/lanes", cookie=forged)
    assert seen.status == 200
    assert "Pay me." not in seen.text


async def test_signing_out_on_one_node_ends_the_session_on_the_others(
    browser: Browser, other: Api
) -> None:
    await browser.sign_in()
    cookie = next(iter(browser.session.cookie_jar))
    first, known = browser.api, {"cookie": f"{cookie.key}={cookie.value}"}
    assert (await browser.get("/", **known)).status == 200
    browser.api = other
    page = await browser.get("/", **known)
    assert (await browser.post("/logout", {"csrf": page.token})).status == 303
    assert (await browser.get("/", **known)).status == 303
    browser.api = first

    async def ended() -> bool:
        return (await browser.get("/", **known)).status == 303

    await eventually(ended, 5, 0.1)


async def test_the_database_holds_neither_the_cookie_nor_the_key(browser: Browser) -> None:
    await browser.sign_in()
    cookie = next(iter(browser.session.cookie_jar))
    rows = await browser.api.node.database.writer.fetch("SELECT * FROM console_session")
    held = [value for row in rows for value in row.values()]
    texts = [each if isinstance(each, bytes) else str(each).encode() for each in held]
    assert rows
    for secret in (cookie.value, browser.api.key):
        assert not any(secret.encode() in text for text in texts)


async def _actor(api: Api) -> Identity:
    found = await Identities(api.node.database).authenticate(api.key)
    assert found is not None
    return found


async def test_a_key_has_a_bounded_number_of_sessions_and_old_ones_end(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_intake, "MAX_SESSIONS", 2)
    actor = await _actor(api)
    sessions = ConsoleSessions(api.node.database)
    begun = [await sessions.begin(actor, api.key) for _ in range(3)]
    found = [await sessions.find(each) for each in begun]
    assert found == [None, api.key, api.key]
    await api.node.database.writer.execute("UPDATE console_session SET until = clock()")
    assert await sessions.find(begun[2]) is None


async def test_a_session_in_use_lasts_on(api: Api) -> None:
    sessions = ConsoleSessions(api.node.database)
    session_id = await sessions.begin(await _actor(api), api.key)
    writer = api.node.database.writer
    await writer.execute("UPDATE console_session SET until = clock() + interval '1 hour'")
    assert await sessions.find(session_id) == api.key
    row = "SELECT max(until) - clock() > interval '11 h' FROM console_session"
    assert await writer.fetchval(row)


class _SlowSessions(ConsoleSessions):
    """Answers what was true when it was asked, when it is told to."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.answers.set()
        self.ended = False

    async def find(self, _: str) -> str | None:
        found = None if self.ended else "key"
        await self.answers.wait()
        return found

    async def end(self, _: str) -> None:
        self.ended = True


async def test_pages_that_ask_for_a_session_at_once_lose_none_of_its_dry_runs() -> None:
    kept = _SlowSessions()
    sessions = Sessions(kept)
    session = await sessions.find("id")
    assert session is not None
    session.keep_plan("shown", "plan")
    session.checked_until = 0.0
    kept.answers.clear()
    left, *asked = [asyncio.create_task(sessions.find("id")) for _ in range(3)]
    await asyncio.sleep(0)
    left.cancel()
    kept.answers.set()
    assert await asyncio.gather(*asked) == [session, session]
    again = await sessions.find("id")
    assert again is not None
    assert again.plan("shown") == "plan"


async def test_a_page_asked_for_while_its_session_ends_does_not_bring_it_back() -> None:
    kept = _SlowSessions()
    sessions = Sessions(kept)
    kept.answers.clear()
    asked = asyncio.create_task(sessions.find("id"))
    await asyncio.sleep(0)
    await sessions.end("id")
    kept.answers.set()
    await asked
    assert await sessions.find("id") is None


async def test_a_form_comes_back_filled_after_the_session_has_ended(api: Api) -> None:
    async with Browser(api) as browser:
        await browser.sign_in()
        page = await browser.get("/new/payment")
        typed = {"from_account_id": "alice", "amount": "125.50", "description": "rent & heat"}
        browser.session.cookie_jar.clear()
        sent = await browser.post("/new/payment", page.hidden | typed)
        assert sent.status == 303
        login = sent.headers["location"]
        assert login.startswith("/login?next=")
        onward = parse_qs(urlsplit(login).query)["next"][0]
        entered = await browser.post("/login", {"key": api.key, "next": onward})
        form = (await browser.get(entered.headers["location"])).text
        for text in ('value="alice"', 'value="125.50"', 'value="rent &amp; heat"'):
            assert text in form


async def test_no_secret_of_a_lost_form_stands_in_an_address(api: Api) -> None:
    async with Browser(api) as browser:
        await browser.sign_in()
        page = await browser.get("/new/destination")
        browser.session.cookie_jar.clear()
        typed = {"name": "shop", "secret": "whsec_hidden"}
        sent = await browser.post("/new/destination", page.hidden | typed)
        assert "shop" in sent.headers["location"]
        assert "whsec_hidden" not in sent.headers["location"]
