"""Run a declared change as an endpoint does that was sent an Idempotency-Key."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec, TypeVar, cast

from postdate.intake.create_once import Remember
from postdate.resource.change import Changes
from postdate.resource.resource import declared_by

P = ParamSpec("P")
R = TypeVar("R")


def remembering(
    method: Callable[P, Awaitable[R]], remember: Remember[R]
) -> Callable[P, Awaitable[R]]:
    """Let a declared method store its answer as the last step of its transaction."""
    declared = declared_by(method)
    assert declared is not None
    service = getattr(method, "__self__", None)
    assert isinstance(service, Changes)
    run = partial(declared.run, service)
    return cast("Callable[P, Awaitable[R]]", lambda actor, *args: run(actor, remember, *args))
