"""The clients: asynchronous, and the same for programs without an event loop."""

import secrets
import weakref
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from postdate.client import encoding
from postdate.client.async_groups.groups import AsyncGroups
from postdate.client.configuration import read_internal_token, read_key, read_url
from postdate.client.errors import ConfigurationError, UnexpectedAnswerError
from postdate.client.group import NOTHING
from postdate.client.operation import Operation
from postdate.client.portal import Portal
from postdate.client.sync_groups.groups import Groups
from postdate.client.transport import Request, Transport, decode

T = TypeVar("T")

TIMEOUT_SECONDS: Final = 60.0
RETRIES: Final = 3
KEY_BYTES: Final = 16
WAIT: Final = "wait_seconds"
REPEATED: Final = frozenset({"GET", "PUT", "DELETE", "PATCH"})


class AsyncClient(AsyncGroups):
    """Calls a server with one key; each group of calls is an attribute (`client.jobs`).

    The address and the key come from POSTDATE_URL and POSTDATE_API_KEY unless they are given.
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
        headers = {"Authorization": f"Bearer {read_key(api_key)}"}
        self._internal_token = read_internal_token(internal_token)
        self.url = read_url(url)
        self._transport = Transport(self.url, headers, encoding.seconds(timeout), retries)

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

    async def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """Call an operation and give its typed answer; a refusal is raised by its code."""
        made = key or (_new_key() if operation.keyed or operation.batch else None)
        sent = body
        if body is not None and operation.batch:
            sent = {operation.batch: _keyed(body[operation.batch], str(made))}
        request = Request(
            method=operation.method,
            path=encoding.path(operation.path, path),
            query=encoding.query(query),
            body=None if sent is None else encoding.body(sent, operation.nulls),
            headers=self._internal() if operation.internal else {},
            key=made if operation.keyed else None,
            repeatable=operation.repeatable,
            wait_seconds=_waiting(query, body),
        )
        try:
            data = await self._transport.send(request)
        except Exception as error:
            if operation.batch:
                error.idempotency_key = made  # type: ignore[attr-defined] # ours have it
            raise
        return _answer(operation, data)

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


class Client(Groups):
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
        self.asynchronous = AsyncClient(
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

    def send(
        self,
        operation: Operation[T],
        *,
        path: Mapping[str, object] = NOTHING,
        query: Mapping[str, Any] = NOTHING,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """Call an operation as `AsyncClient.send` does."""
        work = self.asynchronous.send(operation, path=path, query=query, body=body, key=key)
        return self.portal.run(work)

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


def _answer(operation: Operation[T], data: bytes) -> T:
    try:
        return msgspec.json.decode(data or b"null", type=operation.returns)
    except msgspec.DecodeError as error:
        raise UnexpectedAnswerError(f"{operation.name}: {error}") from error
