"""Actions: offered on a page, confirmed with a form, done through intake."""

import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

from starlette.responses import Response

from postdate.console.bulk import BulkRun, begin
from postdate.console.equivalent_command import EquivalentCommand, shown_lines
from postdate.console.page_request import PageRequest, instant, scalar
from postdate.console.subject import read_facts, read_facts_if_possible
from postdate.core.identity import Scope
from postdate.http.endpoint import Limited
from postdate.intake.create_once import CreateRequest, Remember, Shown
from postdate.intake.idempotency import CREATED, Granted, Refused
from postdate.words.error import Code, Refusal, RefusedError, refuse

T = TypeVar("T")

TYPE_COUNT_ABOVE: Final = 1000
"""Above this many items the person must type the count to confirm."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Field:
    """A field of a confirmation form; a `late` one is shown after the dry run."""

    name: str
    label: str
    kind: Literal["text", "number", "datetime-local", "choice"] = "text"
    choices: tuple[str, ...] = ()
    hint: str = ""
    required: bool = True
    late: bool = False

    def value(self, text: str) -> Any:
        """Return what was typed, as JSON; what is no such value stays text."""
        if self.kind == "number":
            return scalar(text)
        if self.kind == "datetime-local":
            with contextlib.suppress(RefusedError):
                return moment_of({self.name: text}, self.name).isoformat()
        return text


REASON: Final = Field(name="reason", label="Reason", hint="the next person on call reads this")
"""The reason that the next person on call will read."""


@dataclass(slots=True, frozen=True, kw_only=True)
class DryRun:
    """What would be done: facts, a few rows of it, and the plan that a confirmation carries out.

    A confirmation touches what `plan` holds and nothing else, whatever has changed meanwhile.
    """

    count: int
    noun: str
    facts: list[tuple[str, str]]
    head: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    money: bool = False
    plan: Any = None

    @property
    def typed(self) -> bool:
        """Return whether the count must be typed: it is many, or it is money."""
        return self.count > TYPE_COUNT_ABOVE or (self.money and self.count > 1)


MakeDryRun = Callable[[PageRequest, Mapping[str, str]], Awaitable[DryRun]]


def moment_of(form: Mapping[str, str], name: str) -> datetime:
    """Read an instant from a form, which gives it in UTC."""
    at = instant(form.get(name), name)
    if at is None:
        raise refuse(Code.INVALID_FIELD, "Give a date and a time.", name)
    return at


def reason_of(request: PageRequest, name: str = "reason") -> str:
    """Read why something is done; nobody may leave it out."""
    reason = request.form.get(name, "").strip()
    if not reason:
        raise refuse(Code.INVALID_FIELD, "Give a reason: the next person on call reads it.", name)
    return reason


def form_key(request: PageRequest) -> str:
    """Return the form's own idempotency key: the same form sent twice counts once."""
    return request.form.get("once") or secrets.token_urlsafe(16)


def granted(answer: T | Refused) -> T:
    """Return an answer that grants what was asked; raise the refusal of another."""
    if isinstance(answer, Refused):
        raise RefusedError(answer.refusal)
    return answer


async def create_once(
    request: PageRequest,
    operation: str,
    members: Mapping[str, Any],
    create: Callable[[Remember[T]], Awaitable[T]],
    show: Callable[[T], Shown],
) -> Granted:
    """Create something once for each form, and return the answer that is kept of it."""
    wanted = CreateRequest(
        tenant_id=request.actor.tenant_id,
        operation=operation,
        key=form_key(request),
        members=members,
        accounts=request.actor.accounts,
    )
    return granted(await request.services.once.run(wanted, create, show, CREATED))


@dataclass(slots=True, frozen=True, kw_only=True)
class Action:
    """One button: its texts, the scope it needs, and what it does.

    `does` gives the sentence that tells what was done, or work that goes on piece by piece. Its
    refusals are shown on the same form, which keeps what was typed. With `rehearse` a dry run comes
    first, and its plan is what is done.
    """

    path: str
    scope: Scope | None
    """None where what is done decides about the scope."""
    limited: Limited = "refused"
    title: str
    button: str
    means: str
    back: str | Callable[[PageRequest], str]
    """The page that shows the result; names in braces stand for parts of the path."""
    does: Callable[[PageRequest], Awaitable[str | BulkRun]]
    fields: tuple[Field, ...] = ()
    danger: bool = False
    same: EquivalentCommand | None = None
    same_for_each: EquivalentCommand | None = None
    """What does the same to one of those that were selected in a list."""
    rehearse: MakeDryRun | None = None
    selects: str = "jobs"
    """The name under which a list gives what was selected in it."""

    def _require(self, request: PageRequest) -> None:
        request.require(self.scope, self.limited)

    async def ask(self, request: PageRequest) -> Response:
        """Show what will happen, and ask."""
        self._require(request)
        given = request.http.query_params
        if self.rehearse is None or not self._complete(given):
            return await self._form(request, given, None, None)
        try:
            return await self._form(request, given, None, await self.rehearse(request, given))
        except RefusedError as error:
            return await self._form(request, given, error.refusal, None)

    async def act(self, request: PageRequest) -> Response:
        """Carry it out, and go back to the page that shows the result."""
        self._require(request)
        kept: DryRun | None = None
        try:
            request.check_halt()
            if self.rehearse is not None:
                kept = _kept(request)
                _check_typed(kept, request.form.get("typed", ""))
            done = await self.does(request)
            answer = (
                await begin(request, done)
                if isinstance(done, BulkRun)
                else request.finish(done, self._back(request))
            )
        except Exception as error:  # noqa: BLE001 - an unknown one is raised again
            return await self._form(request, request.form, request.refusal_of(error), kept)
        request.session.drop_plan(request.form.get("once", ""))
        return answer

    def _back(self, request: PageRequest) -> str:
        if callable(self.back):
            return self.back(request)
        return self.back.format_map(request.http.path_params)

    def _complete(self, given: Mapping[str, str]) -> bool:
        early = [one.name for one in self.fields if not one.late]
        required = [one.name for one in self.fields if one.required and not one.late]
        return all(given.get(name) for name in required) and (not early or "dry" in given)

    async def _form(
        self,
        request: PageRequest,
        values: Mapping[str, str],
        refusal: Refusal | None,
        shown: DryRun | None,
    ) -> Response:
        chosen = request.http.query_params.getlist(self.selects) if self.rehearse else []
        # Sent twice, a form counts once.
        once = request.key_of_form(refusal)
        if shown is not None:
            request.session.keep_plan(once, shown)
        params = {name: str(part) for name, part in request.http.path_params.items()}
        # What was refused is shown again with its key, whatever has become of the database.
        facts = await (read_facts(request) if refusal is None else read_facts_if_possible(request))
        return request.render(
            "confirm.html",
            http_status=refusal.status if refusal else 200,
            action=self,
            subject=" ".join(params.values()),
            facts=facts,
            back=self._back(request),
            values=values,
            refusal=refusal,
            shown=shown,
            # A refused plan, known or expired, is not in the address: what was selected is lost.
            commands=[] if refusal and self.rehearse else self.commands(params, values, chosen),
            chosen=chosen,
            once=once,
        )

    def commands(
        self, path: Mapping[str, str], values: Mapping[str, str], chosen: Sequence[str]
    ) -> list[str]:
        """Return the same for the CLI, for curl and for Python."""
        given = {one: values.get(one.name, "").strip() for one in self.fields}
        typed = {one.name: one.value(text) for one, text in given.items() if text}
        if chosen and self.same_for_each is not None:
            return shown_lines([self.same_for_each.filled_for(one, typed) for one in chosen])
        return [] if self.same is None else shown_lines([self.same.filled(path, typed)])


def _kept(request: PageRequest) -> DryRun:
    plan = request.session.plan(request.form.get("once", ""))
    if not isinstance(plan, DryRun):
        raise refuse(Code.CONFLICT, "This dry run has expired. Run it again.")
    return plan


def _check_typed(shown: DryRun, typed: str) -> None:
    if shown.typed and typed.replace(",", "").strip() != str(shown.count):
        detail = f"Type the number of {shown.noun}s to confirm: {shown.count:,}."
        raise refuse(Code.INVALID_FIELD, detail, "typed")


def plan_of(request: PageRequest) -> Any:
    """Return the plan of the dry run that was confirmed."""
    return _kept(request).plan
