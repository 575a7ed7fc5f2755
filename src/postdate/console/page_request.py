"""One visit to a page: who comes, what is asked for, and how it is answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from postdate.console.render import moment
from postdate.console.services import ConsoleServices
from postdate.console.session import Session
from postdate.model.error import Code, RefusedError, refuse
from postdate.model.tenant.identity import Identity, Scope

Q = TypeVar("Q")

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


@dataclass(slots=True, kw_only=True)
class Visit:
    """A request by somebody who is signed in."""

    request: Request
    services: ConsoleServices
    templates: Environment
    who: Identity
    session: Session
    form: Mapping[str, str]

    @property
    def now(self) -> datetime:
        """Give the database's time: ages are counted by its clock, not by the browser's."""
        return datetime.fromtimestamp(self.services.unix_ms() / 1000, UTC)

    def query(self, shape: type[Q]) -> Q:
        """Read the filters of a list from the address."""
        try:
            return msgspec.convert(dict(self.request.query_params), shape, strict=False)
        except msgspec.ValidationError as error:
            wrong, _, name = str(error).partition(" - at `$.")
            field = name.rstrip("`")
            detail = f"The filter {field} of this address cannot be used: {wrong}."
            raise refuse(Code.INVALID_FIELD, detail, field) from None

    def param(self, name: str) -> Any:
        """Give a part of the path."""
        return self.request.path_params[name]

    def uuid(self, name: str) -> UUID:
        """Give an id of the path."""
        found = self.param(name)
        if not isinstance(found, UUID):
            raise TypeError(f"{name} is no id of the path")
        return found

    def need(self, scope: Scope) -> None:
        """Refuse a key that lacks a scope."""
        if not self.who.allows(scope):
            raise refuse(Code.FORBIDDEN, f"Your key lacks the scope {scope}.", scope=scope)

    def check_halt(self) -> None:
        """Refuse a change while the tenant stands still."""
        if halted := self.services.halted(self.who.tenant_id):
            raise RefusedError(halted)

    def page(self, template: str, *, http_status: int = 200, **values: Any) -> Response:
        """Answer with a page."""
        return HTMLResponse(self.fragment(template, **values), http_status, HEADERS)

    def fragment(self, template: str, **values: Any) -> str:
        """Render a template with what every page knows."""
        now = self.now
        return self.templates.get_template(template).render(
            who=self.who,
            csrf=self.session.csrf,
            notice=self.session.take_notice() if not template.startswith("_") else None,
            works=list(self.session.works.values()),
            path=self.request.url.path,
            address=address(self.request),
            now_ms=round(now.timestamp() * 1000),
            moment=lambda when: moment(when, now),
            allows=self.who.allows,
            **values,
        )

    def done(self, notice: str, back: str) -> Response:
        """Go back to a page and say there what was done."""
        self.session.notice = notice
        return redirect(back)


def redirect(path: str) -> Response:
    """Send the browser to another page with a GET."""
    return RedirectResponse(path, 303, HEADERS)


def address(request: Request) -> str:
    """Give the path with its query."""
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def stripped(request: Request) -> Response | None:
    """Send an address with empty filters to the one without: the address is the state."""
    given = request.query_params.multi_items()
    kept = [(name, value.strip()) for name, value in given if value.strip()]
    if kept == given:
        return None
    return redirect(request.url.path + (f"?{urlencode(kept)}" if kept else ""))


def further(request: Request, **position: object) -> str:
    """Give the address of the next page: the same filters, another place."""
    kept = [(n, v) for n, v in request.query_params.multi_items() if n not in position]
    added = [(name, str(value)) for name, value in position.items() if value is not None]
    return f"{request.url.path}?{urlencode(kept + added)}"


def instant(text: str | None, name: str) -> datetime | None:
    """Read an instant from an address or a form; without a zone it is in UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        detail = "Give a date and a time, such as 2026-05-01T12:00."
        raise refuse(Code.INVALID_FIELD, detail, name) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form; the shell has bounded the body."""
    if request.headers.get("content-type", "").partition(";")[0] != (
        "application/x-www-form-urlencoded"
    ):
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, "Send the form of the page.")
    try:
        return dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The form cannot be read.") from None


def same_origin(request: Request) -> bool:
    """Say whether a form comes from a page of ours; browsers send `Origin` with every POST."""
    origin = request.headers.get("origin", "")
    return origin.partition("://")[2] == request.headers.get("host") != ""


def check_origin(request: Request) -> None:
    """Refuse what another site sends."""
    if not same_origin(request):
        raise foreign()


def foreign() -> RefusedError:
    """Make the refusal of a form that is not ours."""
    return refuse(Code.FORBIDDEN, "This form was not sent from a page of this console.")
