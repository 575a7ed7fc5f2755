"""The login page: a key is exchanged for a random session id."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from postdate.console.page_request import (
    HEADERS,
    address,
    from_this_site,
    read_form,
    redirect,
    set_cookie,
)
from postdate.console.session import COOKIE
from postdate.http.gate import Gate
from postdate.key.change.session import SESSION_SECONDS, ConsoleSessions
from postdate.words.error import RefusedError

MAX_ADDRESS: Final = 4000
"""Longer forms come back empty: an address must pass every proxy."""


class LoginPage:
    """The only page that needs no session."""

    def __init__(self, gate: Gate, sessions: ConsoleSessions, templates: Environment) -> None:
        self._gate = gate
        self._sessions = sessions
        self._templates = templates

    def required(self, request: Request, kept: Mapping[str, str] | None = None) -> Response:
        """Redirect to the login form, which leads back to the requested page.

        What was typed into a form whose session has ended comes back with the form.
        """
        if request.headers.get("hx-request"):
            # A live panel cannot sign in: let the browser load the whole page again.
            return Response(status_code=204, headers={**HEADERS, "hx-refresh": "true"})
        wanted = address(request) if request.method == "GET" else _filled(request, kept)
        return redirect("/login" + ("" if wanted == "/" else "?" + urlencode({"next": wanted})))

    async def show(self, request: Request) -> Response:
        """Show the form."""
        return self._form(_inside(request.query_params.get("next", "")))

    async def enter(self, request: Request) -> Response:
        """Begin a session for a valid key."""
        try:
            form = await read_form(request)
        except RefusedError as error:
            return self._form("/", error.refusal.detail)
        onward = _inside(form.get("next", ""))
        if not from_this_site(request):
            return self._form(onward, "The form was sent from another site; submit it here.")
        key = form.get("key", "").strip()
        try:
            session_id = await self._begin(key)
        except Exception as error:  # what it means is decided where failures are known
            refusal = self._gate.translate(error)
            if refusal is None:
                raise
            return self._form(onward, f"{refusal.detail} Try again in a moment.")
        if session_id is None:
            return self._form(
                onward, "This key is not valid. Check that it is complete and not revoked."
            )
        return _signed_in(request, session_id, onward)

    async def _begin(self, key: str) -> str | None:
        """Begin a session; None where the key is not valid."""
        actor = await self._gate.authenticate(key) if key.isascii() and key else None
        return None if actor is None else await self._sessions.begin(actor, key)

    def _form(self, onward: str, problem: str | None = None) -> Response:
        text = self._templates.get_template("login.html").render(onward=onward, problem=problem)
        return HTMLResponse(text, 200 if problem is None else 422, HEADERS)


def _filled(request: Request, kept: Mapping[str, str] | None) -> str:
    """Return the address of a form with what was typed; the start page where nothing was kept."""
    if kept is None:
        return "/"
    filled = f"{request.url.path}?{urlencode(kept)}"
    return filled if len(filled) <= MAX_ADDRESS else request.url.path


def _signed_in(request: Request, session_id: str, onward: str) -> Response:
    response = redirect(onward)
    set_cookie(request, response, COOKIE, session_id, SESSION_SECONDS)
    return response


def _inside(path: str) -> str:
    """Return a path of this site; anything else, such as two slashes, becomes `/`."""
    own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if own else "/"
