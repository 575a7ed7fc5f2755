"""The clients: asynchronous, and the same for programs without an event loop."""

import secrets
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from postdate.client import encoding
from postdate.client.call import Async, Sender, Sync
from postdate.client.calls.groups import Groups
from postdate.client.configuration import find_server, read_internal_token
from postdate.client.errors import ConfigurationError, UnexpectedAnswerError
from postdate.client.operation import KEY, Operation
from postdate.client.portal import Portal
from postdate.client.transport import Request, Transport, decode

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item

TIMEOUT_SECONDS: Final = 60.0
RETRIES: Final = 3
KEY_BYTES: Final = 16
WAIT: Final = "wait_seconds"
REPEATED: Final = frozenset({"GET", "PUT", "DELETE", "PATCH"})


class AsyncClient(Groups[Async], Sender):
    """Calls a server with one key; each group of calls is an attribute (`client.jobs`).

    The address and the key come from POSTDATE_URL and POSTDATE_API_KEY unless they are given, or
    from the file that a server keeps in its data directory (`./.postdate`, POSTDATE_DATA_DIR).
    A request that was not answered is sent again, up to `retries` times, with one idempotency
    key for all tries.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | timedelta = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        internal_token: str | None = None,
    ) -> None:
        self.server = find_server(url, api_key)
        self.url = self.server.url
        self._internal_token = read_internal_token(internal_token)
        self._transport = Transport(self.server, encoding.seconds(timeout), retries)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    @property
    def asynchronous(self) -> Self:
        """Return this client: it sends itself."""
        return self

    def perform(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Return the coroutine: the caller awaits it."""
        return work

    async def iterate(self, batches: AsyncIterator[Sequence[I]]) -> AsyncIterator[I]:
        """Iterate over the items of all batches."""
        async for batch in batches:
            for item in batch:
                yield item

    async def send(self, operation: Operation, given: Mapping[str, Any]) -> Any:
        """Call an operation and return its typed answer; a refusal is raised by its code."""
        return _answer(operation, await self.fetch(operation, given))

    async def fetch(self, operation: Operation, given: Mapping[str, Any]) -> bytes:
        """Call an operation and return its answer as it came, with fields this client lacks."""
        key = given.get(KEY) or (_new_key() if operation.takes(KEY) else None)
        fields = operation.fields(given)
        sent = fields
        if operation.batch:
            sent = {operation.batch: _keyed(fields[operation.batch], str(key))}
        request = Request(
            method=operation.method,
            path=operation.address(given),
            query=encoding.query(fields) if operation.method == "GET" else {},
            body=encoding.body(sent, operation.nulls) if operation.has_body else None,
            headers=self._internal() if operation.internal else {},
            key=key if operation.keyed else None,
            repeatable=operation.repeatable,
            wait_seconds=_waiting(fields),
        )
        try:
            return await self._transport.send(request)
        except Exception as error:
            if operation.batch:
                error.idempotency_key = key  # type: ignore[attr-defined] # ours have it
            raise

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call any route below /api/v1 and give the decoded answer, without types."""
        request = Request(
            method=method,
            path=path,
            query=encoding.query(query or {}),
            body=None if body is None else msgspec.json.encode(encoding.plain(body, "body")),
            key=idempotency_key,
            repeatable=method in REPEATED or idempotency_key is not None,
            wait_seconds=_waiting(query, body if isinstance(body, dict) else None),
        )
        return decode(await self._transport.send(request))

    def _internal(self) -> dict[str, str]:
        if self._internal_token is None:
            raise ConfigurationError(
                "this call is internal: pass internal_token=…, or set POSTDATE_INTERNAL_TOKEN"
            )
        return {"X-Internal-Auth": self._internal_token}


class Client(Groups[Sync]):
    """The same calls for programs without an event loop.

    It may be shared by threads, and used where a loop is running: the calls run in a thread of
    the client's own.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float | timedelta = TIMEOUT_SECONDS,
        retries: int = RETRIES,
        internal_token: str | None = None,
    ) -> None:
        self._asynchronous = AsyncClient(
            url, api_key, timeout=timeout, retries=retries, internal_token=internal_token
        )
        self.url = self.asynchronous.url
        self.portal = Portal()
        weakref.finalize(self, _end, self.portal, self.asynchronous)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread."""
        _end(self.portal, self.asynchronous)

    @property
    def asynchronous(self) -> AsyncClient:
        """Return the client whose calls this one runs."""
        return self._asynchronous

    def perform(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the asynchronous client to its end."""
        return self.portal.run(work)

    def iterate(self, batches: AsyncIterator[Sequence[I]]) -> Iterator[I]:
        """Iterate over the items of all batches, each fetched in the client's own thread."""

        async def following() -> Sequence[I] | None:
            return await anext(batches, None)

        while (batch := self.portal.run(following())) is not None:
            yield from batch

    def fetch(self, operation: Operation, given: Mapping[str, Any]) -> bytes:
        """Call an operation as `AsyncClient.fetch` does."""
        return self.portal.run(self.asynchronous.fetch(operation, given))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call any route below /api/v1 as `AsyncClient.call` does."""
        work = self.asynchronous.call(
            method, path, body, query=query, idempotency_key=idempotency_key
        )
        return self.portal.run(work)


def _end(portal: Portal, client: AsyncClient) -> None:
    """Close what was opened; also when a program ends that closed nothing."""
    if portal.started:
        portal.run(client.close())
        portal.close()


def _new_key() -> str:
    return secrets.token_urlsafe(KEY_BYTES)


def _keyed(items: Any, key: str) -> list[Any]:
    """Give each item of a batch a key of its own, the same whenever the batch is sent again."""
    return [
        {**each, "idempotency_key": each.get("idempotency_key") or f"{key}-{number}"}
        for number, each in enumerate(items)
    ]


def _waiting(*parts: Mapping[str, Any] | None) -> float:
    """Find how long the server was asked to wait: the answer may take that much longer."""
    for part in parts:
        found = (part or {}).get(WAIT)
        if isinstance(found, int | float | timedelta):
            return encoding.seconds(found)
    return 0.0


def _answer(operation: Operation, data: bytes) -> Any:
    try:
        return msgspec.json.decode(data or b"null", type=operation.returns)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswerError(f"{operation.name}: {error}") from error
