"""Calls of the API, declared once by their signature: awaited on one client, plain on the other."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from postdate.client.operation import Operation

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item


class Async:
    """The kind of client whose calls are awaited."""


class Sync:
    """The kind of client whose calls return when they are done."""


K = TypeVar("K", Async, Sync)


class Caller(ABC):
    """A client as its calls see it."""

    @property
    @abstractmethod
    def asynchronous(self) -> "Sender":
        """Return the client that sends."""

    @abstractmethod
    def perform(self, work: Coroutine[Any, Any, T]) -> Any:
        """Run a coroutine to its end, or return it where the caller awaits it."""

    @abstractmethod
    def iterate(self, batches: AsyncIterator[Sequence[I]]) -> Any:
        """Iterate over the items of all batches, with `for` or with `async for`."""


class Sender(Caller):
    """The client that sends."""

    @abstractmethod
    async def send(self, operation: Operation, given: Mapping[str, Any]) -> Any:
        """Call an operation and return its typed answer; a refusal is raised by its code."""


class Group(Generic[K]):
    """Calls about one thing, through a client of the kind `K`."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def awaited(self) -> Any:
        """Return the same calls of the client that sends."""
        return type(self)(self.caller.asynchronous)


class Method(Generic[P, T]):
    """A method that does something asynchronous, for both clients."""

    def __init__(
        self,
        work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
        declared: Callable[..., object],
        operation: Operation | None = None,
    ) -> None:
        self._work = work
        self.operation = operation
        update_wrapper(self, declared)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: Group[Async], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, group: Group[Sync], owner: type) -> Callable[P, T]: ...
    def __get__(self, group: Group[Any] | None, owner: type) -> Any:
        return self if group is None else MethodType(self, group)

    def __call__(self, group: Group[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Do it; on the asynchronous client, when it is awaited."""
        return group.caller.perform(self._work(group.awaited(), *args, **kwargs))


class ListMethod(Generic[P, I]):
    """A method that iterates over what an operation lists, page by page."""

    def __init__(
        self,
        operation: Operation,
        lists: Sequence[str],
        declared: Callable[Concatenate[Any, P], Iterator[I]],
    ) -> None:
        self._operation = operation
        self._lists = lists
        self._own = Operation(operation.name, operation.method, operation.path, declared)
        update_wrapper(self, declared)

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: Group[Async], owner: type) -> Callable[P, AsyncIterator[I]]: ...
    @overload
    def __get__(self, group: Group[Sync], owner: type) -> Callable[P, Iterator[I]]: ...
    def __get__(self, group: Group[Any] | None, owner: type) -> Any:
        return self if group is None else MethodType(self, group)

    def __call__(self, group: Group[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        """Iterate over the items; a page is asked for when the one before is used up."""
        bound = self._own.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        asked = dict(bound.arguments)
        asked["limit"] = asked.pop("page_size")
        return group.caller.iterate(self._pages(group.caller.asynchronous, asked))

    async def _pages(self, client: Sender, asked: dict[str, Any]) -> AsyncIterator[list[I]]:
        """Ask for page after page.

        Events and the audit never end: a page is the last if `more` is false or nothing came.
        """
        endless = self._operation.takes("after")
        while True:
            page = await client.send(self._operation, asked)
            found = [item for name in self._lists for item in getattr(page, name)]
            yield found
            asked["after" if endless else "cursor"] = page.next_cursor
            ended = page.next_cursor is None or getattr(page, "more", None) is False
            if ended or (endless and not found):
                return


def call(
    name: str,
    method: str,
    path: str,
    *,
    batch: str | None = None,
    repeatable: bool = True,
    internal: bool = False,
    columns: tuple[str, ...] = (),
) -> Callable[[Callable[Concatenate[Any, P], T]], Method[P, T]]:
    """Make a method that calls an operation out of the signature of one.

    Arguments that the path names go there, the others into the query of a GET or into the body.
    """

    def declare(declared: Callable[Concatenate[Any, P], T]) -> Method[P, T]:
        operation = Operation(name, method, path, declared, batch, repeatable, internal, columns)

        def send(group: Group[Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            given = operation.signature.bind(*args, **kwargs).arguments
            return group.caller.asynchronous.send(operation, given)

        return Method(send, declared, operation)

    return declare


def pages(
    page: Method[Any, Any], *lists: str
) -> Callable[[Callable[Concatenate[Any, P], Iterator[I]]], ListMethod[P, I]]:
    """Make a method that iterates over what `page` lists in the fields of these names."""

    def declare(declared: Callable[Concatenate[Any, P], Iterator[I]]) -> ListMethod[P, I]:
        if page.operation is None:
            raise TypeError(f"{page} calls no operation")
        return ListMethod(page.operation, lists, declared)

    return declare


def both(work: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Method[P, T]:
    """Offer an asynchronous method to both clients."""
    return Method(work, work)
