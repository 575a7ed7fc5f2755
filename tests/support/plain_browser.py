"""A browser without JavaScript: signs in, follows links, sends forms."""

import re
import shutil
from dataclasses import dataclass
from html import unescape
from typing import Any, Self

import aiohttp

from conftest import Api

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
"""The browser for the tests that need a real one, where there is one."""

_FIELD = re.compile(r'<input type="hidden" name="([\w.]+)" value="([^"]*)"')


@dataclass
class Seen:
    """A page as it came."""

    status: int
    text: str
    headers: Any
    cookies: Any

    @property
    def token(self) -> str:
        """The token of the session, as every page carries it in its footer."""
        return self.text.partition('name="csrf" value="')[2].partition('"')[0]

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of the page's last form in `main`."""
        main = self.text.partition("<main")[2].partition("</main>")[0]
        return {name: unescape(value) for name, value in _FIELD.findall(main)}


class Browser:
    """One visitor with a cookie jar; redirects are shown, not followed."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def get(self, path: str, **headers: str) -> Seen:
        return await self._ask("GET", path, None, headers)

    async def post(self, path: str, form: dict[str, str], **headers: str) -> Seen:
        return await self._ask("POST", path, form, {"origin": self.api.url} | headers)

    async def _ask(
        self, method: str, path: str, form: dict[str, str] | None, headers: dict[str, str]
    ) -> Seen:
        async with self.session.request(
            method, self.api.url + path, data=form, headers=headers, allow_redirects=False
        ) as response:
            text = await response.text()
            return Seen(response.status, text, response.headers, response.cookies)

    async def sign_in(self, key: str | None = None) -> Seen:
        seen = await self.post("/login", {"key": key or self.api.key, "next": "/"})
        assert seen.status == 303, seen.text
        return seen

    async def confirm(self, path: str, **fields: str) -> Seen:
        """Open the form of an action, fill it in and send it."""
        form = await self.get(path)
        assert form.status == 200, form.text
        return await self.post(path.partition("?")[0], form.hidden | fields)
