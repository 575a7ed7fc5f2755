"""Answer requests with an Idempotency-Key: the first time, and every repetition."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final, Protocol, TypeVar

import msgspec

from postdate.http import problem
from postdate.http.endpoint import Call, Reply
from postdate.intake.create_once import CreateOnce, CreateRequest, Remember, Shown, forget
from postdate.intake.idempotency import Granted, Refused
from postdate.intake.pipeline import Accepted
from postdate.words.error import RefusedError

REPLAYED: Final = {"Idempotency-Replayed": "true"}
OPERATOR_TENANT: Final = 0
"""Keys of internal routes belong to no tenant."""


class AnswersOnce(Protocol):
    """The services of an endpoint whose answers are stored under keys."""

    @property
    def once(self) -> CreateOnce:
        """Return what stores and repeats answers."""
        ...


T = TypeVar("T")
S = TypeVar("S", bound=AnswersOnce)


def reply(outcome: Accepted | Granted | Refused, request_id: str) -> Reply:
    """Return the reply to a request under a key; it says whether the key was answered before."""
    if not isinstance(outcome, Refused):
        body = msgspec.json.encode(outcome.body)
        return Reply(body, outcome.status, REPLAYED if outcome.replayed else {})
    if not outcome.replayed:
        raise RefusedError(outcome.refusal)
    headers = REPLAYED | {"Content-Type": problem.MEDIA_TYPE.decode()}
    body = problem.encode(outcome.refusal, request_id)
    return Reply(body, outcome.refusal.status, headers)


async def run_once_per_key(
    call: Call[S, Any, Any],
    operation: str,
    create: Callable[[Remember[T]], Awaitable[T]],
    show: Callable[[T], msgspec.Struct],
    *,
    status: int = 201,
    hide: Callable[[msgspec.Struct], msgspec.Struct] = lambda shown: shown,
    secret: Collection[str] = (),
) -> Reply | msgspec.Struct:
    """Create something, once for each Idempotency-Key.

    `hide` takes out of the answer what is shown only once; `secret` names the members of the body
    that are not stored in the clear.
    """
    if call.idempotency_key is None:
        return show(await create(forget))
    wanted = CreateRequest(
        tenant_id=OPERATOR_TENANT if call.caller is None else call.caller.tenant_id,
        operation=operation,
        key=call.idempotency_key,
        members=_members(call),
        secret=secret,
        accounts=None if call.caller is None else call.caller.accounts,
    )

    def answer_of(made: T) -> Shown:
        shown = show(made)
        return Shown(shown, hide(shown))

    answer = await call.services.once.run(wanted, create, answer_of, status)
    return reply(answer, call.request_id)


def _members(call: Call[Any, Any, Any]) -> dict[str, Any]:
    """Return everything that the request asks for: path parameters and body."""
    body = {} if call.body is None else msgspec.to_builtins(call.body)
    return {name: str(part) for name, part in call.path.items()} | body
