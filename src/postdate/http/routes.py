"""The routes of one tag, each declared where its handler stands."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar, get_args

import msgspec

from postdate.http.endpoint import Access, AnyEndpoint, Call, Endpoint, HttpMethod, Limited, Reply
from postdate.words.error import Code

H = TypeVar("H", bound=Callable[[Call[Any, Any, Any]], Awaitable[Reply | msgspec.Struct]])


class Routes:
    """Collects the endpoints of one tag, in the order of their handlers."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self.endpoints: list[AnyEndpoint] = []

    def add(
        self,
        method: HttpMethod,
        path: str,
        scope: Access,
        *,
        returns: type[msgspec.Struct] | None = None,
        status: int | None = None,
        errors: tuple[Code, ...] = (),
        idempotency: Literal["required", "optional"] | None = None,
        max_body: int | None = None,
        max_seconds: float | None = None,
        halted: Literal["refused", "new work", "served"] = "refused",
        limited: Limited = "refused",
        files: tuple[str, ...] = (),
    ) -> Callable[[H], H]:
        """Declare a handler as an endpoint.

        Its types say what the body and the query are, its docstring is the text of the reference.
        `returns` is needed where it answers with a `Reply`; without any body the status is 204.
        """

        def declare(handler: H) -> H:
            summary, description = documented(handler)
            body, query = _asked(handler)
            answer = returns or _struct(handler.__annotations__["return"])
            self.endpoints.append(
                Endpoint(
                    method=method,
                    path=path,
                    handler=handler,
                    scope=scope,
                    returns=answer,
                    summary=summary,
                    tag=self._tag,
                    description=description,
                    body=body,
                    query=query,
                    status=status or (204 if answer is None else 200),
                    errors=errors,
                    idempotency=idempotency,
                    max_body=max_body,
                    max_seconds=max_seconds,
                    halted=halted,
                    limited=limited,
                    files=files,
                )
            )
            return handler

        return declare


def documented(function: Callable[..., object]) -> tuple[str, str]:
    """Return the text of the reference: the first sentence of a docstring, and what follows it."""
    summary, _, description = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    return " ".join(summary.split()).removesuffix("."), " ".join(description.split())


def _asked(handler: Callable[..., object]) -> list[Any]:
    """Return the types of the body and the query: `Call[Services, Body, Query]` names them."""
    [call, *_] = handler.__annotations__.values()
    return [_struct(kind) for kind in get_args(call)[1:]]


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None
