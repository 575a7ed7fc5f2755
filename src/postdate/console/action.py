"""Actions: asked for on one page, confirmed with a form, done through intake, told in words."""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from starlette.responses import Response

from postdate.console.visit import Visit
from postdate.model.errors import Code, RefusedError, refuse
from postdate.model.identity import Scope


@dataclass(slots=True, frozen=True, kw_only=True)
class Field:
    """Something to fill in before an action is done."""

    name: str
    label: str
    kind: Literal["text", "number", "datetime-local"] = "text"
    hint: str = ""
    required: bool = True


def moment_of(form: Mapping[str, str], name: str) -> datetime:
    """Read an instant from a form, which gives it in UTC."""
    try:
        at = datetime.fromisoformat(form.get(name, ""))
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Give a date and a time.", name) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


@dataclass(slots=True, frozen=True, kw_only=True)
class Action:
    """One button: what it says, who may press it, what it does.

    `does` gives the sentence that tells what was done. Its refusals are shown on the same form,
    which keeps what was typed.
    """

    path: str
    scope: Scope
    title: str
    button: str
    means: str
    back: Callable[[Visit], str]
    does: Callable[[Visit], Awaitable[str]]
    fields: tuple[Field, ...] = ()
    danger: bool = False

    async def ask(self, visit: Visit) -> Response:
        """Show what will happen, and ask."""
        visit.need(self.scope)
        return self._form(visit, visit.request.query_params, None)

    async def act(self, visit: Visit) -> Response:
        """Do it, and go back to where it can be seen."""
        visit.need(self.scope)
        try:
            told = await self.does(visit)
        except RefusedError as error:
            return self._form(visit, visit.form, error)
        return visit.done(told, self.back(visit))

    def _form(self, visit: Visit, values: object, error: RefusedError | None) -> Response:
        return visit.page(
            "confirm.html",
            http_status=error.refusal.status if error else 200,
            action=self,
            subject=" ".join(str(part) for part in visit.request.path_params.values()),
            back=self.back(visit),
            values=values,
            refusal=error.refusal if error else None,
            # Sent twice, a form counts once; after a refusal it is another form.
            once=secrets.token_urlsafe(16),
        )
