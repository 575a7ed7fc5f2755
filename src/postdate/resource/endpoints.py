"""The endpoints that follow from the declared methods of a noun's services."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from postdate.http.endpoint import AnyEndpoint, Call, Endpoint, EndpointHandler, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes, documented
from postdate.intake.answer_once import run_once_per_key
from postdate.intake.create_once import forget
from postdate.resource.change import Given
from postdate.resource.resource import Declared, declared_by, mark

S = TypeVar("S")
AnyCall = Call[Any, Any, Any]
AnyHandler = EndpointHandler[Any, Any, Any]


class ServedClass(NamedTuple):
    """A class with declared methods, and where the services hold one of its objects."""

    kind: type
    find: Callable[[Any], Any]


Fresh = tuple[Declared, ServedClass] | None
"""The read that shows a change."""


def serve(tag: str, *served: ServedClass) -> Routes:
    """Return the routes of everything that these classes declare, in the order of their methods."""
    routes = Routes(tag)
    found = [(one, each) for each in served for one in _declared(each.kind)]
    fresh = next((pair for pair in found if _shows_change(pair[0])), None)
    for declared, each in found:
        handler = _read(declared, each) or _change(declared, each, fresh)
        routes.endpoints.append(_endpoint(tag, declared, handler, fresh))
    return routes


def _shows_change(declared: Declared) -> bool:
    """Return whether a read shows what has changed: a get, or a list without pages."""
    return declared.kind == "get" or (declared.kind == "list" and not declared.resource.paged)


def _declared(kind: type) -> Iterator[Declared]:
    for method in vars(kind).values():
        if (found := declared_by(method)) is not None:
            yield found


def _endpoint(tag: str, declared: Declared, handler: AnyHandler, fresh: Fresh) -> AnyEndpoint:
    handler.__name__ = declared.name
    mark(handler, declared)
    summary, description = documented(declared.function)
    returns = _returns(declared, fresh)
    status = 201 if declared.kind == "create" else 200
    return Endpoint(
        method=declared.method,
        path=declared.path,
        handler=handler,
        scope=declared.scope,
        returns=returns,
        summary=summary,
        tag=tag,
        description=description,
        body=body_of(declared),
        query=PageQuery if declared.kind == "list" and declared.resource.paged else None,
        status=204 if returns is None else status,
        errors=declared.errors,
        idempotency=None if declared.once is None else "optional",
        halted=declared.halted,
        limited=declared.limited,
    )


def body_of(declared: Declared) -> type[msgspec.Struct] | None:
    """Return the type of the body: the parameter of a change that is a struct, or a patch."""
    if declared.kind in {"list", "get"}:
        return None
    for each in inspect.signature(declared.function).parameters.values():
        if each.annotation is Given:
            return declared.resource.patch
        if isinstance(each.annotation, type) and issubclass(each.annotation, msgspec.Struct):
            return each.annotation
    return None


def _returns(declared: Declared, fresh: Fresh) -> type[msgspec.Struct] | None:
    if declared.kind == "list":
        return declared.resource.page
    if declared.kind == "get":
        return declared.resource.shows
    answer = get_type_hints(declared.function)["return"]
    if answer is not type(None):
        return answer  # type: ignore[no-any-return]
    return _returns(fresh[0], None) if fresh and declared.kind != "delete" else None


def _whose(declared: Declared, call: AnyCall) -> tuple[Any, ...]:
    """Return on whose behalf to read: a key's own reach only where lists are filtered by it."""
    if declared.scope == "internal":
        return ()
    return (call.actor if declared.limited == "filtered" else call.actor.tenant_id,)


def _list(declared: Declared, served: ServedClass) -> AnyHandler:
    resource = declared.resource

    async def handler(call: AnyCall) -> msgspec.Struct:
        service, whose = served.find(call.services), _whose(declared, call)
        if not resource.paged:
            return resource.page(await declared.function(service, *whose))
        after = call.query.start(resource.key_type, resource.first)
        found, end = await declared.function(service, *whose, after, call.query.limit)
        return resource.page(found, next_cursor(end))

    return handler


def _get(declared: Declared, served: ServedClass) -> AnyHandler:
    async def handler(call: AnyCall) -> msgspec.Struct:
        key = call.path[declared.resource.key]
        found = await declared.function(served.find(call.services), *_whose(declared, call), key)
        return existing(found, declared.resource.noun, key)  # type: ignore[no-any-return]

    return handler


def _read(declared: Declared, served: ServedClass) -> AnyHandler | None:
    match declared.kind:
        case "list":
            return _list(declared, served)
        case "get":
            return _get(declared, served)
        case _:
            return None


def _change(declared: Declared, served: ServedClass, fresh: Fresh) -> AnyHandler:
    """Run a change; one that returns nothing answers with what a read shows then."""
    answer = _read(*fresh) if fresh and declared.kind != "delete" else None

    async def handler(call: AnyCall) -> Reply | msgspec.Struct:
        made: Reply | msgspec.Struct | None = await _run(declared, served.find(call.services), call)
        if made is not None:
            return made
        return Reply() if answer is None else await answer(call)

    return handler


async def _run(declared: Declared, service: Any, call: AnyCall) -> Any:
    actor, arguments = call.actor, list(_arguments(declared, call))
    if declared.once is None:
        return await declared.run(service, actor, forget, *arguments)

    def hide(shown: msgspec.Struct) -> msgspec.Struct:
        return msgspec.structs.replace(shown, **dict.fromkeys(declared.shown_once))

    return await run_once_per_key(
        call,
        declared.once,
        lambda remember: declared.run(service, actor, remember, *arguments),
        lambda made: made,
        status=201 if declared.kind == "create" else 200,
        hide=hide,
        secret=declared.hashed,
    )


def _arguments(declared: Declared, call: AnyCall) -> Iterator[Any]:
    if declared.resource.key in call.path:
        yield call.path[declared.resource.key]
    if declared.kind == "change":
        yield {
            name: value
            for name, value in msgspec.structs.asdict(call.body).items()
            if value is not msgspec.UNSET
        }
    elif call.body is not None:
        yield call.body
