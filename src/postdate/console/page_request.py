"""One request for a page: who sends it, what is asked for, and how it is answered."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postdate.api.services import Services
from postdate.console.frame import NO_TAB, TAB_BY_PATH, Frame, read_frame
from postdate.console.render import actor, deadline, moment
from postdate.console.session import ConsoleSession
from postdate.core.identity import Identity, Scope
from postdate.http import request_reader
from postdate.http.endpoint import Access, Limited
from postdate.http.gate import Gate
from postdate.test_clock.view import TestClockView
from postdate.words.error import Code, Refusal, RefusedError, refuse

Q = TypeVar("Q", bound=msgspec.Struct)

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


NOTICE: Final = "postdate_notice"
NOTICE_SECONDS: Final = 60
"""How long what an action did waits for the page that shows it."""
FIRST_KEY: Final = UUID(int=0)
MAX_KEYS: Final = 200
"""How many keys are known by name; the others are shown by the ends of their ids."""

MAX_FIELDS: Final = 1000
"""The fields of a form: the page of the login reads them for whoever sends them."""

UNDECIDED: Final = 500
"""From this status on an answer does not say whether the request was carried out."""


@dataclass(slots=True, kw_only=True)
class PageRequest:
    """A request of a signed-in session."""

    http: Request
    services: Services
    gate: Gate
    templates: Environment
    actor: Identity
    session: ConsoleSession
    signed_in: Callable[[], Awaitable[bool]]
    """Asks again whether the session lasts, for streams that outlast one request."""
    # Of a tenant in test mode.
    clock: TestClockView | None = None
    form: Mapping[str, str]
    frame: Frame = field(default_factory=Frame)
    # Who the ids on this page are, as far as it asked.
    names: dict[str, str] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """Return the database's time: ages are counted by its clock, not by the browser's."""
        if self.clock is not None:
            return self.clock.at
        return datetime.fromtimestamp(self.services.unix_ms() / 1000, UTC)

    @property
    def operator(self) -> bool:
        """Return whether an admin of the operator's tenant asks, who sees the whole cluster."""
        actor = self.actor
        return (
            actor.allows(Scope.ADMIN)
            and actor.accounts is None
            and actor.tenant == self.services.operator_tenant
        )

    async def learn_names(self, *, nodes: bool = False) -> None:
        """Learn how keys are called, and for operators nodes: `who` then says their names.

        A key that is limited to some accounts belongs to another party: it learns of no other key.
        """
        if self.actor.accounts is not None:
            return
        keys, _ = await self.services.key.read.page(self.actor, FIRST_KEY, MAX_KEYS)
        self.names |= {str(key.key_id): key.note for key in keys if key.note}
        if nodes and self.operator:
            self.names |= {
                str(node.node_id): f"node {node.name}" for node in await self.services.node.page()
            }

    async def read_frame(self) -> None:
        """Read what is shown around the page, and who stopped the work if it is stopped."""
        self.frame = await read_frame(
            self.services,
            self.actor,
            self.now,
            lambda error: self.gate.translate(error) is not None,
        )
        if any(state.actor for state in self.frame.states):
            await self.learn_names()

    def who(self, identifier: object) -> str:
        """Return the name of a key or a node, or else the end of its id."""
        text = str(identifier or "")
        return self.names.get(text) or actor(text)

    def query(self, shape: type[Q]) -> Q:
        """Read the filters of a list from the address; one that the page lacks is refused."""
        for name in self.http.query_params:
            if name not in shape.__struct_encode_fields__:
                known = ", ".join(shape.__struct_encode_fields__)
                raise refuse(
                    Code.INVALID_FIELD, f"This page has no such filter. It has: {known}.", name
                )
        return request_reader.query(self.http.scope["query_string"], shape)

    def param(self, name: str) -> Any:
        """Return a part of the path."""
        return self.http.path_params[name]

    def uuid(self, name: str) -> UUID:
        """Return an id that is part of the path."""
        found = self.http.path_params[name]
        if not isinstance(found, UUID):
            raise TypeError(f"{name} is no id of the path")
        return found

    def require(self, scope: Access, limited: Limited) -> None:
        """Refuse a key that lacks a scope, or that is limited to accounts where none is meant."""
        self.gate.check_rights(self.actor, scope, limited)

    def address_with(self, **changed: object) -> str:
        """Return the address of this page with some query parameters changed, None removes one."""
        kept = [(n, v) for n, v in self.http.query_params.multi_items() if n not in changed]
        added = [(name, str(value)) for name, value in changed.items() if value is not None]
        return f"{self.http.url.path}?{urlencode(kept + added)}"

    def filters(self, *position: str) -> str:
        """Return the filters of this page as a query, without where in the list it begins."""
        return self.address_with(**dict.fromkeys(position)).partition("?")[2]

    def next_page(self, **position: object) -> str | None:
        """Return the address of the next page: the same filters, further on; None at the end."""
        if all(value is None for value in position.values()):
            return None
        return self.address_with(**position)

    def render(self, template: str, *, http_status: int = 200, **values: Any) -> Response:
        """Return a page as the answer; a notice is shown once."""
        answer = HTMLResponse(self.fragment(template, **values), http_status, HEADERS)
        if NOTICE in self.http.cookies and not self._partial(template):
            answer.delete_cookie(NOTICE, httponly=True, samesite="strict")
        return answer

    def fragment(self, template: str, **values: Any) -> str:
        """Render a template with what every page knows."""
        now, path = self.now, self.http.url.path
        place = TAB_BY_PATH.get(path) or TAB_BY_PATH.get("/" + path.split("/", 2)[1], NO_TAB)
        return self.templates.get_template(template).render(
            actor=self.actor,
            clock=self.clock,
            csrf=self.session.csrf,
            notice=self.session.unpack_notice(self.http.cookies.get(NOTICE)),
            frame=self.frame,
            path=path,
            place=place,
            address=address(self.http),
            now_ms=round(now.timestamp() * 1000),
            moment=lambda when: moment(when, now),
            deadline=lambda when: deadline(when, now),
            allows=self.actor.allows,
            operator=self.operator,
            who=self.who,
            **values,
        )

    def _partial(self, template: str) -> bool:
        """Return whether this is no whole page: a part of one, or a list that polls."""
        return template.startswith("_") or "x-live" in self.http.headers

    def refusal_of(self, error: Exception) -> Refusal:
        """Return what an error means; an unforeseen one is raised again."""
        known = error.refusal if isinstance(error, RefusedError) else self.gate.translate(error)
        if known is None:
            raise error
        return known

    def key_of_form(self, refusal: Refusal | None) -> str:
        """Return the idempotency key of the form that is shown again, or for the first time.

        A refusal answers it: what is sent next is another form. Where it is not known whether it
        was carried out, it keeps its key, so that sending it again does not do it twice.
        """
        had = self.form.get("once")
        if had and (refusal is None or _undecided(refusal)):
            return had
        return secrets.token_urlsafe(16)

    def finish(self, notice: str, back: str) -> Response:
        """Go back to a page and show there what was done."""
        answer = redirect(back)
        set_cookie(self.http, answer, NOTICE, self.session.pack_notice(notice), NOTICE_SECONDS)
        return answer


@dataclass(slots=True, frozen=True)
class ConsolePage:
    """A page: its path, what makes it, and which keys may see it."""

    path: str
    handler: Callable[[PageRequest], Awaitable[Response]]
    scope: Scope | None = None
    limited: Limited = "refused"
    has_filters: bool = True

    async def show(self, request: PageRequest) -> Response:
        """Return the page; an address with empty filters is first sent to the shorter one."""
        request.require(self.scope, self.limited)
        shorter = _without_empty_filters(request.http) if self.has_filters else None
        return shorter or await self.handler(request)


def _undecided(refusal: Refusal) -> bool:
    return refusal.status >= UNDECIDED or refusal.code is Code.IDEMPOTENCY_IN_FLIGHT


def redirect(path: str) -> Response:
    """Send the browser to another page with a GET."""
    return RedirectResponse(path, 303, HEADERS)


def set_cookie(request: Request, answer: Response, name: str, value: str, seconds: int) -> None:
    """Hand the browser a cookie that no script reads and no other site sends."""
    secure = "https" in {request.url.scheme, request.headers.get("x-forwarded-proto")}
    answer.set_cookie(name, value, max_age=seconds, httponly=True, samesite="strict", secure=secure)


def address(request: Request) -> str:
    """Return the path with its query."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _without_empty_filters(request: Request) -> Response | None:
    given = request.query_params.multi_items()
    kept = [(name, value.strip()) for name, value in given if value.strip()]
    if kept == given:
        return None
    return redirect(request.url.path + (f"?{urlencode(kept)}" if kept else ""))


def instant(text: str | None, name: str) -> datetime | None:
    """Read an instant from an address or a form; without a zone it is in UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        detail = "Give a date and a time, such as 2026-05-01T12:00."
        raise refuse(Code.INVALID_FIELD, detail, name) from None


def scalar(text: str) -> Any:
    """Read numbers and flags as such; anything else is text."""
    try:
        return msgspec.json.decode(text, type=int | float | bool)
    except msgspec.DecodeError:
        return text


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form; the shell has bounded the body."""
    if request.headers.get("content-type", "").partition(";")[0] != (
        "application/x-www-form-urlencoded"
    ):
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, "Send the form of the page.")
    try:
        text = (await request.body()).decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The form cannot be read.") from None


def from_this_site(request: Request) -> bool:
    """Return whether a form comes from a page of ours; browsers send `Origin` with every POST."""
    origin = request.headers.get("origin", "")
    return origin.partition("://")[2] == request.headers.get("host") != ""


def check_origin(request: Request) -> None:
    """Refuse what another site sends."""
    if not from_this_site(request):
        raise foreign()


def foreign() -> RefusedError:
    """Make the refusal of a form that is not ours."""
    return refuse(Code.FORBIDDEN, "This form was not submitted from this console.")
