"""The routes of the console, and the guard in front of each."""

import math
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from postdate.console import asset, bulk
from postdate.console.action import Action
from postdate.console.actions import (
    account,
    dead_letter,
    destination,
    job,
    job_bulk,
    key,
    lane,
    payment,
    schedule,
    schedule_bulk,
    setting,
    subscription,
)
from postdate.console.login import Login
from postdate.console.page_request import (
    HEADERS,
    Visit,
    address,
    check_origin,
    foreign,
    read_form,
    redirect,
)
from postdate.console.pages.account import account_page, accounts_page
from postdate.console.pages.audit import audit_page
from postdate.console.pages.dead_letter import dead_letters_page
from postdate.console.pages.destination import destinations_page
from postdate.console.pages.event import events_page
from postdate.console.pages.job import job_page, jobs_page
from postdate.console.pages.lane import lanes_page
from postdate.console.pages.overview import overview_page, overview_stream
from postdate.console.pages.payment import payment_page, payments_csv, payments_page
from postdate.console.pages.schedule import schedule_page, schedules_page
from postdate.console.pages.search import find_page, find_peek
from postdate.console.pages.setting import settings_page
from postdate.console.pages.subscription import subscriptions_page
from postdate.console.render import environment
from postdate.console.services import ConsoleServices
from postdate.console.session import COOKIE, Session, Sessions
from postdate.model import origin
from postdate.model.error import EXPLANATIONS, Code, Refusal, RefusedError, refuse
from postdate.model.tenant.identity import Identity

Handler = Callable[[Visit], Awaitable[Response]]
METHODS: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
log = structlog.get_logger(__name__)

PAGES: Final[tuple[tuple[str, Handler], ...]] = (
    ("/", overview_page),
    ("/overview/stream", overview_stream),
    ("/jobs", jobs_page),
    ("/jobs/{job_id:uuid}", job_page),
    ("/payments", payments_page),
    ("/payments.csv", payments_csv),
    ("/payments/{payment_id:uuid}", payment_page),
    ("/schedules", schedules_page),
    ("/schedules/{schedule_id:uuid}", schedule_page),
    ("/accounts", accounts_page),
    ("/accounts/{account_id}", account_page),
    ("/dead-letters", dead_letters_page),
    ("/destinations", destinations_page),
    ("/events", events_page),
    ("/lanes", lanes_page),
    ("/settings", settings_page),
    ("/subscriptions", subscriptions_page),
    ("/audit", audit_page),
    ("/find", find_page),
    ("/find/peek", find_peek),
    *bulk.PAGES,
)
ACTIONS: Final[tuple[Action, ...]] = (
    *lane.ACTIONS,
    *account.ACTIONS,
    *dead_letter.ACTIONS,
    *destination.ACTIONS,
    *job.ACTIONS,
    *job_bulk.ACTIONS,
    *key.ACTIONS,
    *payment.ACTIONS,
    *schedule_bulk.ACTIONS,
    *schedule.ACTIONS,
    *setting.ACTIONS,
    *subscription.ACTIONS,
)


async def nowhere(_: Visit) -> Response:
    """Stand for every page that there is not."""
    raise refuse(Code.NOT_FOUND, "There is no such page.")


class Console:
    """Opens a page only to somebody who is signed in, and says in words what went wrong."""

    def __init__(self, services: ConsoleServices) -> None:
        self._services = services
        self._sessions = Sessions()
        self._templates = environment()
        self._login = Login(services, self._sessions, self._templates)

    def routes(self) -> list[Route]:
        """Give every route of the console."""
        guarded = [Route(path, self._guard(page), methods=["GET"]) for path, page in PAGES]
        confirmed = [
            Route(action.path, self._guard(handler), methods=[method])
            for action in ACTIONS
            for method, handler in (("GET", action.ask), ("POST", action.act))
        ]
        steps = [Route(path, self._guard(step), methods=["POST"]) for path, step in bulk.STEPS]
        return [
            *asset.routes(),
            Route("/login", self._login.show, methods=["GET"]),
            Route("/login", self._login.enter, methods=["POST"]),
            Route("/logout", self._guard(self._leave), methods=["POST"]),
            *confirmed,
            *steps,
            *guarded,
            # The last of all routes: an address that no page has.
            Route("/{path:path}", self._nowhere, methods=METHODS),
        ]

    async def _nowhere(self, request: Request) -> Response:
        """Tell a person in words that there is no such page; programs are told as ever."""
        if request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(404)
        return await self._guard(nowhere)(request)

    def _guard(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                return await self._visit(request, handler)
            except Exception as error:  # noqa: BLE001 - the edge: it is logged, and told in words
                return self._problem(request, self._explain(error))

        guarded.__name__ = getattr(handler, "__name__", "console_page")
        return guarded

    async def _visit(self, request: Request, handler: Handler) -> Response:
        session = self._sessions.find(request.cookies.get(COOKIE))
        who = await self._services.authenticate(session.key) if session else None
        if session is None or who is None:
            self._sessions.end(request.cookies.get(COOKIE))
            return self._login.required(request)
        origin.identified(who.tenant)
        await self._services.pace(who)
        form = await self._form(request, session) if request.method == "POST" else {}
        visit = self._make(request, session, who, form)
        try:
            return await handler(visit)
        except Exception as error:  # noqa: BLE001 - as above; whoever is signed in keeps the pages
            refusal = self._explain(error)
            part = request.headers.get("hx-request")
            return visit.page(
                "_problem.html" if part else "problem.html",
                http_status=refusal.status,
                refusal=refusal,
                explanation=EXPLANATIONS[refusal.code],
                request_id=request.scope["request_id"],
            )

    async def _form(self, request: Request, session: Session) -> dict[str, str]:
        check_origin(request)
        form = await read_form(request)
        if not session.admits(form.pop("csrf", "")):
            raise foreign()
        return form

    def _make(
        self, request: Request, session: Session, who: Identity, form: dict[str, str]
    ) -> Visit:
        return Visit(
            request=request,
            services=self._services,
            templates=self._templates,
            who=who,
            session=session,
            form=form,
        )

    async def _leave(self, visit: Visit) -> Response:
        self._sessions.end(visit.request.cookies.get(COOKIE))
        response = redirect("/login")
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    def _explain(self, error: Exception) -> Refusal:
        if isinstance(error, RefusedError):
            return error.refusal
        refusal = self._services.translate(error)
        if refusal is None:
            log.error("page failed", exc_info=error)
            refusal = Refusal(Code.INTERNAL, "The page could not be made.")
        return refusal

    def _problem(self, request: Request, refusal: Refusal) -> Response:
        text = self._templates.get_template("error.html").render(
            refusal=refusal,
            explanation=EXPLANATIONS[refusal.code],
            request_id=request.scope["request_id"],
            address=address(request),
        )
        wait = refusal.extra.get("retry_after_seconds")
        headers = HEADERS if wait is None else HEADERS | {"retry-after": str(math.ceil(wait))}
        return HTMLResponse(text, refusal.status, headers)


def console_routes(services: ConsoleServices) -> list[Route]:
    """Make the console; its sessions live in this process."""
    return Console(services).routes()
