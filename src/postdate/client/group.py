"""What the generated groups of calls stand on."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from postdate.client.operation import Operation

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item

NOTHING: Final[Mapping[str, Any]] = {}


class Page(Protocol):
    """A page of a list: `next_cursor` says where to go on."""

    @property
    def next_cursor(self) -> str | None:
        """Return the place of the next page; None at the end."""


P = TypeVar("P", bound=Page)


class AsyncSender(ABC):
    """What an asynchronous client offers its groups."""

    @abstractmethod
    async def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """Call an operation."""


class Sender(ABC):
    """What a synchronous client offers its groups."""

    @abstractmethod
    def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """Call an operation."""


class AsyncGroup:
    """Calls of an asynchronous client."""

    def __init__(self, client: AsyncSender) -> None:
        self._client = client
        self._send = client.send

    async def _pages(
        self,
        operation: Operation[P],
        items: Callable[[P], Sequence[I]],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
    ) -> AsyncIterator[I]:
        asked = dict(query)
        while True:
            page = await self._send(operation, path=path, query=asked)
            found = items(page)
            for item in found:
                yield item
            if following(asked, page, found) is None:
                return


class Group:
    """Calls of a synchronous client."""

    def __init__(self, client: Sender) -> None:
        self._client = client
        self._send = client.send

    def _pages(
        self,
        operation: Operation[P],
        items: Callable[[P], Sequence[I]],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
    ) -> Iterator[I]:
        asked = dict(query)
        while True:
            page = self._send(operation, path=path, query=asked)
            found = items(page)
            yield from found
            if following(asked, page, found) is None:
                return


def following(asked: dict[str, Any], page: Page, found: Sequence[object]) -> str | None:
    """Ask for the page that follows; None when this was the last.

    Events and the audit go on for ever: theirs has ended when `more` denies it or nothing came.
    """
    cursor = page.next_cursor
    if getattr(page, "more", None) is False:
        return None
    if "after" in asked:
        asked["after"] = cursor
        return cursor if found else None
    asked["cursor"] = cursor
    return cursor
