"""Limits and secrets have no side entrance: the console, the internal token, the first message."""

import sys
import time

import pytest

from conftest import Api
from postdate.http.endpoint import Call, Reply
from postdate.http.login_throttle import LoginThrottle
from postdate.node.process import _announce
from postdate.node.settings import ProcessSettings
from support.plain_browser import Browser
from support.raw_http import make_app, serving
from support.sample_app import endpoint

KEY = "pdk_shown_to_a_person"


async def test_the_console_obeys_the_limits_on_requests(api: Api) -> None:
    async with Browser(api) as browser:
        await browser.sign_in(api.key)
        path = "/settings/rate.key_per_second"
        assert (await api.call("PUT", path, {"value": 2})).status == 200
        await api.node.refresh_settings()
        pages = [await browser.get("/jobs") for _ in range(8)]
    [refused, *_] = [page for page in pages if page.status == 429]
    assert refused.headers["retry-after"] == "1"


async def test_wrong_internal_tokens_are_slowed_and_the_right_one_is_not() -> None:
    async def inside(_: Call[None, None, None]) -> Reply:
        return Reply(b"{}")

    app = make_app(
        [endpoint("POST", "/inside", inside, scope="internal", returns=None)],
        internal_token="right",
        login_throttle=LoginThrottle(free=3),
    )
    async with serving(app) as running:
        wrong = {"x-internal-auth": "wrong"}
        path = "/api/v1/inside"
        got = [(await running.ask("POST", path, headers=wrong)).status for _ in range(5)]
        assert got == [401] * 4 + [429]
        right = await running.ask("POST", path, headers={"x-internal-auth": "right"})
        assert right.status == 200


@pytest.mark.parametrize("terminal", [True, False])
def test_the_admin_key_is_shown_to_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, terminal: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    _announce("http://127.0.0.1:1", KEY, ProcessSettings())
    out, err = poll_output(capfd)
    assert (KEY in out) is terminal
    assert KEY not in err
    assert "admin.key" in out


def poll_output(capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return what was written, once a thread of its own has written the welcome."""
    until, out, err = time.monotonic() + 10, "", ""
    while "127.0.0.1:1" not in out and time.monotonic() < until:
        time.sleep(0.01)
        said = capfd.readouterr()
        out, err = out + said.out, err + said.err
    return out, err
