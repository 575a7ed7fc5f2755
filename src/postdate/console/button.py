"""Buttons: each is one operation of the API, filled in and confirmed by a person.

The fields of its form are those of the operation's body. What is typed becomes that body, which is
decoded, refused and carried out exactly as the API would do it; the form shows the same request for
a shell and for Python.
"""

import copy
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.responses import Response

from postdate.console import form_body
from postdate.console.body_schema import BodySchema
from postdate.console.bulk import begin
from postdate.console.dry_run import DryRun, Rehearse, kept_dry_run
from postdate.console.form_field import FieldSpec, FormField
from postdate.console.form_words import offers
from postdate.console.money_form import CurrencyOf, MinorUnits, to_minor, to_units
from postdate.console.operation import (
    ENDPOINT_BY_NAME,
    Answer,
    BodyFields,
    call_endpoint,
    check_halt,
    decode_body,
)
from postdate.console.page_request import PageRequest
from postdate.console.problem_words import problems_of
from postdate.console.render import spoken
from postdate.console.shown_request import (
    NOT_TYPED,
    ShownRequest,
    method_of,
    path_names,
)
from postdate.console.subject import Subject
from postdate.core.identity import Scope
from postdate.core.money import MONEY_FIELDS, money_text
from postdate.core.operation_name import NOUNS
from postdate.http.endpoint import Access, AnyEndpoint
from postdate.words.error import Refusal, RefusedError

_NEW: Final = frozenset({"create", "schedule"})
"""Verbs whose form is at `/new/`."""
_PART: Final = re.compile(r"\{[^{}]*\}")
REASON: Final = FieldSpec("reason", required=True)
"""The reason, which the API does not insist on: the next person on call reads it."""
LATE_REASON: Final = replace(REASON, late=True)


class _Spoken(dict[str, Any]):
    """Members that a sentence names, each written so that it can be read."""

    currency: str | None = None

    def __getitem__(self, name: str) -> str:
        value: Any = super().__getitem__(name)
        if name in MONEY_FIELDS and isinstance(value, int):
            return money_text(value, self.currency)
        return spoken(value)


@dataclass(slots=True, frozen=True)
class Each:
    """The operation that does the same to one of the items that were selected in a list."""

    operation: str
    body: Mapping[str, str] = field(default_factory=dict)
    """Its fields, and the path of each in the body of the button."""


@dataclass(frozen=True)
class Button:
    """One operation as a button, and the form that confirms it.

    Names in braces in `back`, `done`, `then` and `fixed` stand for parts of the path, and in `done`
    and `then` also for members of the body and of the answer. What is left out follows from the
    operation.
    """

    operation: str
    _: KW_ONLY
    means: str
    """What it does, for who must decide."""
    done: str | Callable[[PageRequest, Answer], str] = ""
    """What was done; empty where a bulk run says it."""
    label: str = ""
    title: str = ""
    confirm: str = ""
    """What the button of the form says, if not the label."""
    danger: bool = False
    at: str = ""
    back: str | Callable[[PageRequest], str] = ""
    """The page behind *Go back*."""
    then: str = ""
    """The page that shows the result, if not the one behind *Go back*."""
    fields: tuple[str | FieldSpec, ...] | None = None
    """The fields of the form, in their order; None is all of the body."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """What every request says, whatever is typed."""
    stored: str = ""
    """The operation that reads what an edit begins with."""
    currency: CurrencyOf | None = None
    """Finds what amounts are typed in; without it they are integers of the minor unit."""
    subject: Subject | None = None
    needs: Scope | None = None
    """The scope that it takes where the operation itself takes any key."""
    happens: str = ""
    """The field that says what should happen: others are shown only where they belong to it."""
    preview: str = ""
    """A page that shows what the unsaved form would do."""
    rehearse: Rehearse | None = None
    """Makes a dry run, which comes first; what it shows is what is done."""
    bulk: bool = False
    """It is done to each item of the dry run, in the background."""
    selects: str = ""
    """The name under which a list gives what was selected in it."""
    each: Each | None = None

    @cached_property
    def endpoint(self) -> AnyEndpoint:
        """Return the operation that is carried out."""
        return ENDPOINT_BY_NAME[self.operation]

    @cached_property
    def scope(self) -> Access:
        """Return the scope that a key needs."""
        return self.needs or self.endpoint.scope

    @cached_property
    def path(self) -> str:
        """Return the address of the form: the thing, and what is done to it."""
        group, verb = method_of(self.endpoint)
        parts = "".join(f"/{part}" for part in _PART.findall(self.endpoint.path))
        if self.at:
            return self.at
        if verb in _NEW and not parts:
            return f"/new/{_dashed(NOUNS[group])}"
        return f"/{_dashed(group)}{parts}/{_dashed('edit' if verb == 'change' else verb)}"

    @cached_property
    def key(self) -> str:
        """Return the name by which templates offer it: its address without the thing's own."""
        return _PART.sub("", self.path).strip("/").replace("//", "/")

    @cached_property
    def words(self) -> str:
        """Return what the button says on a page."""
        above, _, verb = self.key.replace("-", " ").rpartition("/")
        return self.label or (f"New {verb}" if above == "new" else verb.capitalize())

    @cached_property
    def heading(self) -> str:
        """Return the title of the form."""
        if self.title or self.key.startswith("new/"):
            return self.title or self.words
        return f"{self.words} {NOUNS[method_of(self.endpoint)[0]].replace('_', ' ')}"

    @cached_property
    def schema(self) -> BodySchema:
        """Return what the operation takes."""
        return BodySchema(self.endpoint, self.fixed)

    @cached_property
    def form_fields(self) -> tuple[FormField, ...]:
        """Return the fields of the form."""
        wanted = self.schema.names() if self.fields is None else self.fields
        asked = [FieldSpec(one) if isinstance(one, str) else one for one in wanted]
        return tuple(self.schema.field(one) for one in asked if one.name not in self.fixed)

    def kept_names(self) -> set[str]:
        """Return the fields that come back with the form after a new login: no secret does."""
        return {one.name for one in self.form_fields if not one.secret}

    def address(self, **given: object) -> str:
        """Return a link to the form: parts of the path, and values that it begins with."""
        path = _PART.sub(lambda found: _quoted(given.pop(_name(found[0]))), self.path)
        query = urlencode({name: str(value) for name, value in given.items()})
        return f"{path}?{query}" if query else path

    async def ask(self, request: PageRequest) -> Response:
        """Show the form: empty, with what the address gives, with what is stored, or a dry run."""
        request.require(self.scope, self.endpoint.limited)
        values = dict(request.http.query_params)
        if self.stored:
            stored = await call_endpoint(request, ENDPOINT_BY_NAME[self.stored])
            known = form_body.stored_values(self.form_fields, stored)
            if self.currency is not None:
                known = to_units(self.form_fields, known, await self.currency(request, values))
            values = known | values
        if self.rehearse is None or not self._complete(values):
            return await self._render(request, values)
        try:
            late = {one.name for one in self.form_fields if one.late}
            typed = {name: text for name, text in values.items() if name not in late}
            minor = await self._minor(request, typed)
            body = self.body(request.http.path_params, minor.typed)
            shown = await self.rehearse(request, body)
        except RefusedError as error:
            return await self._render(request, values, error.refusal)
        kept = shown if shown.body is not None else replace(shown, body=body)
        return await self._render(request, values, None, kept)

    async def act(self, request: PageRequest) -> Response:
        """Carry the operation out; a refusal is shown on the form, which keeps what was typed."""
        request.require(self.scope, self.endpoint.limited)
        kept: DryRun | None = None
        minor = MinorUnits(request.form, {})
        try:
            if self.rehearse is not None:
                kept = kept_dry_run(request)
                kept.check_typed(request.form.get("typed", ""))
            shown = "shown" in request.form
            if self.currency is not None:
                minor = await self._minor(request, request.form)
            body = self.body(request.http.path_params, minor.typed, whole=not shown)
            if shown:
                return await self._render(request, request.form)
            if kept is not None:
                answer = await self._carry_out(request, {**body, **(kept.body or {})}, kept)
            else:
                answer = await self._call(request, body)
        except Exception as error:  # noqa: BLE001 - an unknown one is raised again
            refusal = minor.explain(request.refusal_of(error))
            return await self._render(request, request.form, refusal, kept)
        request.services.overview.forget(request.actor.tenant_id)
        return answer

    async def _carry_out(self, request: PageRequest, body: BodyFields, kept: DryRun) -> Response:
        """Do what the dry run has shown, once."""
        if self.bulk:
            check_halt(request, self.endpoint)
            if self.endpoint.body is not None:
                decode_body(self.endpoint, body)
            return await begin(request, self.operation, body, kept)
        answer = await self._call(request, body)
        request.session.drop_plan(request.form.get("once", ""))
        return answer

    async def _call(self, request: PageRequest, body: BodyFields) -> Response:
        """Call the operation, once for each form, and go back with a message."""
        once = request.form.get("once") or secrets.token_urlsafe(16)
        answer = await call_endpoint(request, self.endpoint, body, idempotency_key=once)
        known = {**request.http.path_params, **body, **answer}
        page = self.then.format_map(known) if self.then else self._back(request)
        if callable(self.done):
            return request.finish(self.done(request, answer), page)
        said = _Spoken(known)
        if self.currency is not None:
            said.currency = await self.currency(request, request.form)
        return request.finish(self.done.format_map(said), page)

    async def _minor(self, request: PageRequest, typed: Mapping[str, str]) -> MinorUnits:
        """Return what was typed with amounts as the API takes them."""
        if self.currency is None:
            return MinorUnits(typed, {})
        return to_minor(self.form_fields, typed, await self.currency(request, typed))

    def body(
        self, path: Mapping[str, Any], typed: Mapping[str, str], *, whole: bool = False
    ) -> dict[str, Any]:
        """Make the body of the request from what was typed; a `whole` form misses nothing."""
        body: dict[str, Any] = {}
        for name, value in self.fixed.items():
            known = value.format_map(path) if isinstance(value, str) else copy.copy(value)
            form_body.put(body, name, known)
        for one in self.form_fields:
            form_body.fill(body, one, typed, edit=bool(self.stored), whole=whole)
        return body

    def _complete(self, given: Mapping[str, str]) -> bool:
        """Return whether everything is given that a dry run needs."""
        early = [one for one in self.form_fields if not one.late]
        return all(given.get(one.name) for one in early if one.required) and (
            not early or "dry" in given
        )

    def _back(self, request: PageRequest) -> str:
        if callable(self.back):
            return self.back(request)
        if self.back:
            return self.back.format_map(request.http.path_params)
        above = request.http.url.path.rpartition("/")[0]
        return f"/{_dashed(method_of(self.endpoint)[0])}" if above == "/new" else above

    async def _render(
        self,
        request: PageRequest,
        values: Mapping[str, str],
        refusal: Refusal | None = None,
        shown: DryRun | None = None,
    ) -> Response:
        once = request.key_of_form(refusal)
        if shown is not None:
            request.session.keep_plan(once, shown)
        facts = []
        if self.subject is not None:
            # What was refused is shown again with its key, whatever has become of the database.
            facts = await self.subject.facts(request, if_possible=refusal is not None)
        chosen = request.http.query_params.getlist(self.selects) if self.selects else []
        commands: list[str] = []
        # A refused plan is not in the address: what was selected is lost, and no line may do more
        # than the form. An edit has nothing to send before something was changed.
        if refusal is None and (not self.stored or "shown" in request.form):
            changed = None if shown is None else shown.body
            with suppress(RefusedError):
                typed = (await self._minor(request, values)).typed if self.currency else values
                commands = self.commands(request.http.path_params, typed, chosen, changed)
        return request.render(
            "button.html",
            http_status=refusal.status if refusal else 200,
            button=self,
            about=" ".join(str(part) for part in request.http.path_params.values()),
            facts=facts,
            back=self._back(request),
            values=values,
            refusal=refusal,
            problems={} if refusal is None else problems_of(refusal),
            shown=shown,
            commands=commands,
            chosen=chosen,
            once=once,
            offers=await offers(request, self.form_fields),
            happening=values.get("happens") or (values.get(self.happens) if self.happens else ""),
        )

    def commands(
        self,
        path: Mapping[str, Any],
        values: Mapping[str, str],
        chosen: Sequence[str] = (),
        changed: BodyFields | None = None,
    ) -> list[str]:
        """Return the same for the CLI, for curl and for Python."""
        try:
            body = {**self.body(path, values), **(changed or {})}
        except RefusedError:
            body = self.body(path, {})
        needed = [one.name for one in self.form_fields if one.required and not self.stored]
        for name in [*needed, *self.schema.required]:
            if form_body.value_at(body, name) is None and not values.get(name):
                form_body.put(body, name, NOT_TYPED)
        own = {name: str(path[name]) for name in path_names(self.endpoint) if name in path}
        requests = [ShownRequest(self.endpoint, own, body)]
        if self.each is not None and (chosen or self.each.operation == self.operation):
            requests = [self._shown_for(self.each, one, body) for one in chosen]
        if not requests:
            return []
        python = ["from postdate.client import Client", *(one.as_python() for one in requests)]
        return [
            "\n".join(one.as_command() for one in requests),
            "\n".join(one.as_curl() for one in requests),
            "\n".join(python),
        ]

    def _shown_for(self, each: Each, item: str, body: BodyFields) -> ShownRequest:
        endpoint = ENDPOINT_BY_NAME[each.operation]
        [name] = path_names(endpoint)
        own = {one: form_body.value_at(body, path) for one, path in each.body.items()}
        return ShownRequest(endpoint, {name: item}, own)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _name(part: str) -> str:
    return part.strip("{}").partition(":")[0]


def _quoted(part: object) -> str:
    return quote(str(part), safe="")
