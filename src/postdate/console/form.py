"""Forms that create or edit: each is one operation of the API, filled in by a person.

The fields of a form become the JSON body of the operation, which is decoded, refused and carried
out exactly as the API would do it; the form shows that request for a shell and for Python.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from postdate.console.action import form_key
from postdate.console.equivalent_command import ENDPOINT_BY_NAME, ShownRequest, shown_lines
from postdate.console.page_request import PageRequest, instant, scalar
from postdate.core import any_json
from postdate.core.identity import Scope
from postdate.http import request_reader
from postdate.http.endpoint import AnyEndpoint, Call, Reply
from postdate.http.limit import RequestLimits
from postdate.http.request_reader import check_depth
from postdate.words.error import Code, Refusal, RefusedError, refuse

FieldKind = Literal[
    "text", "whole", "decimal", "scalar", "datetime-local", "choice", "lines", "json", "checkbox"
]
"""How a field is typed in: `whole` and `decimal` are numbers, `lines` one value each.

A `scalar` is a number or a flag where it can be read as one, else text.
"""

Values = Mapping[str, Any]
Answer = dict[str, Any]
WAS: Final = "was."
"""Before the name of a field: what was stored when the form was shown."""


@dataclass(slots=True, frozen=True, kw_only=True)
class FormField:
    """One field; `name` is its path in the body, with dots between the parts, 0 in a list."""

    name: str
    label: str
    kind: FieldKind = "text"
    hint: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    nullable: bool = False
    """An empty field of an edit sends null, which takes a limit away."""

    def value(self, text: str) -> Any:
        """Return what was typed, as JSON; the API refuses what is no such value."""
        return _READERS.get(self.kind, _as_typed)(text, self.name)

    def text(self, value: Any) -> str:
        """Write a stored value as the form shows it."""
        if value is None:
            return ""
        match self.kind:
            case "lines":
                return "\n".join(map(str, value))
            case "json":
                return json.dumps(value, indent=2, ensure_ascii=False)
            case "datetime-local":
                at = datetime.fromisoformat(str(value)).astimezone(UTC)
                return at.strftime("%Y-%m-%dT%H:%M:%S")
            case _:
                return str(value)


def instant_field(
    name: str, label: str, hint: str = "in UTC", *, required: bool = False, nullable: bool = False
) -> FormField:
    """Return a field for an instant."""
    kind: FieldKind = "datetime-local"
    return FormField(
        name=name, label=label, kind=kind, hint=hint, required=required, nullable=nullable
    )


def _as_typed(text: str, _: str) -> str:
    return text


_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")
"""A number as JSON writes it: what else `int` takes, such as 1_0, the API would refuse."""


def _whole(text: str, _: str) -> int | str:
    return int(text) if _WHOLE.fullmatch(text) else text


def _decimal(text: str, name: str) -> float | str:
    if _WHOLE.fullmatch(text):
        return _whole(text, name)
    try:
        number = float(text)
    except ValueError:
        return text
    # JSON has no infinity: it would be sent as null, which takes a limit away.
    return number if math.isfinite(number) else text


def _instant(text: str, name: str) -> str | None:
    at = instant(text, name)
    return None if at is None else at.isoformat()


def _lines(text: str, _: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _json(text: str, name: str) -> Any:
    check_depth(text.encode(), RequestLimits().json_depth)
    try:
        return any_json.decode(text)
    except msgspec.DecodeError as error:
        raise refuse(Code.INVALID_FIELD, f"This is not JSON: {error}.", name) from None


_READERS: Final[Mapping[FieldKind, Callable[[str, str], Any]]] = {
    "whole": _whole,
    "decimal": _decimal,
    "scalar": lambda text, _: scalar(text),
    "datetime-local": _instant,
    "lines": _lines,
    "json": _json,
    "checkbox": lambda *_: True,
}


@dataclass(slots=True, frozen=True, kw_only=True)
class EndpointForm:
    """A form for one operation.

    `done` says what was done, and which page shows it.
    """

    path: str
    operation: str
    method_name: str
    """The method of the Python client, such as `jobs.create`."""
    title: str
    button: str
    means: str
    fields: tuple[FormField, ...]
    done: tuple[str, str] | Callable[[PageRequest, Answer], tuple[str, str]]
    back: str
    """The page behind *Go back*. Names in braces, here and in `done`, stand for parts of the path
    and of the answer.
    """
    stored: str = ""
    """The operation that reads what an edit begins with."""
    danger: bool = False
    preview: str = ""
    """A page that shows what the unsaved form would do."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """What every request of the form says, whatever is typed."""
    needs: Scope | None = None
    """The scope that it takes where the operation itself takes any key."""

    @property
    def endpoint(self) -> AnyEndpoint:
        """Return the operation that the form fills in."""
        return ENDPOINT_BY_NAME[self.operation]

    def _require(self, request: PageRequest) -> None:
        """Refuse a key that the operation itself would refuse."""
        request.require(self.needs or self.endpoint.scope, self.endpoint.limited)

    async def ask(self, request: PageRequest) -> Response:
        """Show the form: empty, with what the address gives, or with what is stored."""
        self._require(request)
        values = dict(request.http.query_params)
        if self.stored:
            stored = await call_endpoint(request, ENDPOINT_BY_NAME[self.stored])
            known = {one.name: one.text(value_at(stored, one.name)) for one in self.fields}
            values = known | values | {f"{WAS}{name}": text for name, text in known.items()}
        return self._render(request, values)

    async def act(self, request: PageRequest) -> Response:
        """Carry the operation out; a refusal is shown on the form, which keeps what was typed."""
        self._require(request)
        try:
            body = self.body(request.form)
            if "shown" in request.form:
                return self._render(request, request.form)
            self._check_halt(request)
            # The form's own key: sent twice, it counts once.
            once = form_key(request) if self.endpoint.idempotency else None
            answer = await call_endpoint(request, self.endpoint, body, once)
        except Exception as error:  # noqa: BLE001 - an unknown one is raised again
            return self._render(request, request.form, request.refusal_of(error))
        request.services.overview.forget(request.actor.tenant_id)
        return request.finish(*self._done(request, answer))

    def _done(self, request: PageRequest, answer: Answer) -> tuple[str, str]:
        if callable(self.done):
            return self.done(request, answer)
        notice, page = self.done
        known = {**answer, **request.http.path_params}
        return notice.format_map(known), page.format_map(known)

    def body(self, form: Mapping[str, str]) -> dict[str, Any]:
        """Make the body of the request from what was typed; an empty field is left out.

        An edit sends only what was changed: what somebody else has changed meanwhile stays.
        """
        body: dict[str, Any] = {}
        for path, given in self.fixed.items():
            _put(body, path, given)
        for one in self.fields:
            text = form.get(one.name, "").replace("\r\n", "\n").strip()
            if text == _was(form, one):
                continue
            if text:
                _put(body, one.name, one.value(text))
            elif one.nullable:
                _put(body, one.name, None)
        return body

    def _check_halt(self, request: PageRequest) -> None:
        halted = self.endpoint.halted
        if halted != "served":
            request.gate.check_halt(request.actor, new_work=halted == "new work")

    def _render(
        self, request: PageRequest, values: Mapping[str, str], refusal: Refusal | None = None
    ) -> Response:
        commands: list[str] = []
        if (refusal is None and not self.stored) or "shown" in request.form:
            commands = self.commands(request.http.path_params, self._typed(values))
        return request.render(
            "form.html",
            http_status=refusal.status if refusal else 200,
            form=self,
            values=values,
            subject=" ".join(str(part) for part in request.http.path_params.values()),
            back=self.back.format_map(request.http.path_params),
            refusal=refusal,
            commands=commands,
            once=request.key_of_form(refusal),
        )

    def _typed(self, values: Mapping[str, str]) -> dict[str, Any]:
        try:
            return self.body(values)
        except RefusedError:
            return {}

    def commands(self, path: Mapping[str, Any], body: Mapping[str, Any]) -> list[str]:
        """Return the same request for the CLI, for curl and for Python."""
        request = ShownRequest(
            operation=self.operation, method_name=self.method_name, path=path, body=body
        )
        return shown_lines([request])


async def call_endpoint(
    request: PageRequest,
    endpoint: AnyEndpoint,
    body: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Answer:
    """Carry out an operation as the API does, for who is signed in, and return its answer."""
    request.require(endpoint.scope, endpoint.limited)
    raw = b"" if body is None else msgspec.json.encode(body)
    decoded = None
    if endpoint.body is not None:
        decoder = msgspec.json.Decoder(endpoint.body)
        decoded = request_reader.decode(raw, decoder, RequestLimits().json_depth)
    answer = await endpoint.handler(
        Call(
            services=request.services,
            caller=request.actor,
            path=dict(request.http.path_params),
            query=None,
            body=decoded,
            idempotency_key=idempotency_key,
            request_id=request.http.scope["request_id"],
            traceparent=None,
            draining=request.http.scope["draining"],
            receive=request.http.receive,
            headers={},
            hold_open=lambda: None,
        )
    )
    return _answered(answer)


def _was(form: Mapping[str, str], typed: FormField) -> str | None:
    """Return what an edit began with; browsers end the lines of a form in their own way."""
    stored = form.get(f"{WAS}{typed.name}")
    return None if stored is None else stored.replace("\r\n", "\n").strip()


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    parts = path.split(".")
    found: Any = body
    for part, following in pairwise(parts):
        if isinstance(found, list):
            found = found[int(part)]
        else:
            found = found.setdefault(part, [{}] if following == "0" else {})
    found[parts[-1]] = value


def value_at(values: Values, path: str) -> Any:
    """Return the value at a path, None where there is nothing."""
    found: Any = values
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _answered(answer: Reply | msgspec.Struct) -> Answer:
    """Return the body of an answer; a remembered refusal is raised as if it were the first."""
    body = answer.body if isinstance(answer, Reply) else answer
    if isinstance(body, msgspec.Struct):
        body = msgspec.json.encode(body)
    if not isinstance(body, bytes):
        return {}
    found: Answer = msgspec.json.decode(body)
    if isinstance(answer, Reply) and (answer.status or 200) >= 400:  # noqa: PLR2004 - refusals
        raise refuse(Code(found["code"]), found["detail"], found.get("field"))
    return found
