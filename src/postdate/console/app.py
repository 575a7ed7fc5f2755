"""The routes of the console, and the guard in front of each."""

import math
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from postdate.api.services import Services
from postdate.console import asset
from postdate.console.button_table import BUTTON_BY_KEY
from postdate.console.form_words import picks, words_of
from postdate.console.frame import AREAS, MORE
from postdate.console.login import LoginPage
from postdate.console.page_request import (
    HEADERS,
    PageRequest,
    address,
    check_origin,
    foreign,
    from_this_site,
    read_form,
    redirect,
)
from postdate.console.page_table import FILTERS, PAGES, PARTS, WORDS
from postdate.console.problem_words import in_human_words
from postdate.console.render import environment
from postdate.console.session import COOKIE, ConsoleSession, Sessions
from postdate.core import origin, test_clock
from postdate.http.gate import Gate
from postdate.words.error import EXPLANATIONS, Code, Refusal, refuse

PageHandler = Callable[[PageRequest], Awaitable[Response]]
FRAME_WORDS: Final = {
    "areas": AREAS,
    "more": MORE,
    "choice_words": words_of,
    "picks": picks,
    "human": in_human_words,
}
_FAILED: Final = "The page could not be rendered."
METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


async def _no_page(_: PageRequest) -> Response:
    raise refuse(Code.NOT_FOUND, "There is no such page.")


class Console:
    """Serves pages to signed-in people only, and explains every failure on a page."""

    def __init__(self, services: Services, gate: Gate) -> None:
        self._services = services
        self._gate = gate
        self._sessions = Sessions(services.session)
        self._templates = environment(BUTTON_BY_KEY, FILTERS, {**WORDS, **FRAME_WORDS})
        self._login = LoginPage(gate, services.session, self._templates)

    def routes(self) -> list[Route]:
        """Return every route of the console."""
        pages = [
            Route(page.path, self._guard(page.show, page.handler.__name__), methods=["GET"])
            for page in PAGES
        ]
        buttons = [
            # A form asks for the bar once it is loaded: what is pressed comes first.
            Route(
                button.path,
                self._guard(handler, button.operation, framed=False, keeps=button.kept_names),
                methods=[method],
            )
            for button in BUTTON_BY_KEY.values()
            for method, handler in (("GET", button.ask), ("POST", button.act))
        ]
        steps = [
            Route(path, self._guard(step, step.__name__), methods=["POST"]) for path, step in PARTS
        ]
        return [
            *asset.routes(),
            Route("/login", self._login.show, methods=["GET"]),
            Route("/login", self._login.enter, methods=["POST"]),
            Route("/logout", self._guard(self._sign_out, "sign_out"), methods=["POST"]),
            *buttons,
            *steps,
            *pages,
            # The last of all routes: an address that no page has.
            Route("/{path:path}", self.missing_page, methods=METHODS),
        ]

    async def missing_page(self, request: Request) -> Response:
        """Show an error page for a path that does not exist."""
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return await self._guard(_no_page, "missing_page")(request)

    def _guard(
        self,
        handler: PageHandler,
        name: str,
        *,
        framed: bool = True,
        keeps: Callable[[], Collection[str]] | None = None,
    ) -> Callable[[Request], Awaitable[Response]]:
        """Make a Starlette endpoint; its name is the route's name in metrics."""

        async def guarded(request: Request) -> Response:
            try:
                return await self._serve(request, handler, framed=framed, keeps=keeps)
            except Exception as error:  # noqa: BLE001 - the last resort: logged, and shown
                return self._problem(request, self._gate.explain(error, _FAILED))

        guarded.__name__ = name
        return guarded

    async def _serve(
        self,
        http: Request,
        handler: PageHandler,
        *,
        framed: bool,
        keeps: Callable[[], Collection[str]] | None,
    ) -> Response:
        session = await self._sessions.find(http.cookies.get(COOKIE))
        actor = await self._gate.identify(session.key, origin.current()) if session else None
        if session is None or actor is None:
            return self._login.required(http, await _typed(http, keeps))
        await self._gate.pace(actor)
        clock = None
        if actor.test:
            test_clock.follow(actor.tenant_id)
            clock = await self._services.test_clock.read.get(actor.tenant_id)
        request = PageRequest(
            http=http,
            services=self._services,
            gate=self._gate,
            templates=self._templates,
            actor=actor,
            session=session,
            signed_in=lambda: self._is_signed_in(http),
            clock=clock,
            form=await _form(http, session) if http.method == "POST" else {},
        )
        if framed and _is_whole_page(http):
            await request.read_frame()
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - as above, within the frame of the console
            refusal = self._gate.explain(error, _FAILED)
            return request.render(
                "_problem.html" if http.headers.get("hx-request") else "problem.html",
                http_status=refusal.status,
                refusal=refusal,
                explanation=EXPLANATIONS[refusal.code],
                request_id=http.scope["request_id"],
            )

    async def _is_signed_in(self, http: Request) -> bool:
        session = await self._sessions.find(http.cookies.get(COOKIE))
        return session is not None and await self._gate.authenticate(session.key) is not None

    async def _sign_out(self, request: PageRequest) -> Response:
        await self._sessions.end(request.http.cookies[COOKIE])
        response = redirect("/login")
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _problem(self, http: Request, refusal: Refusal) -> Response:
        text = self._templates.get_template("error.html").render(
            refusal=refusal,
            explanation=EXPLANATIONS[refusal.code],
            request_id=http.scope["request_id"],
            address=address(http),
        )
        wait = refusal.extra.get("retry_after_seconds")
        headers = HEADERS if wait is None else HEADERS | {"retry-after": str(math.ceil(wait))}
        return HTMLResponse(text, refusal.status, headers)


def _is_whole_page(http: Request) -> bool:
    """Return whether the answer is a page: no part of one, no stream, no file."""
    if http.method != "GET" or "hx-request" in http.headers or "x-live" in http.headers:
        return False
    return "text/event-stream" not in http.headers.get("accept", "")


async def _typed(
    http: Request, keeps: Callable[[], Collection[str]] | None
) -> dict[str, str] | None:
    """Return what was typed into a form of this site whose session has ended, secrets aside."""
    if http.method != "POST" or keeps is None or not from_this_site(http):
        return None
    names, form = keeps(), await read_form(http)
    return {name: text for name, text in form.items() if name in names and text}


async def _form(request: Request, session: ConsoleSession) -> dict[str, str]:
    check_origin(request)
    form = await read_form(request)
    if not session.admits(form.pop("csrf", "")):
        raise foreign()
    return form


def console_routes(services: Services, gate: Gate) -> list[Route]:
    """Make the console."""
    return Console(services, gate).routes()
