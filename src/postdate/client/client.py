"""An HTTP client: asynchronous, with a thin synchronous wrapper."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
import msgspec

TIMEOUT_SECONDS: Final = 60.0
BASE: Final = "/api/v1"


class ProblemError(Exception):
    """The server refused: a stable `code`, the HTTP `status`, and what else it said."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("detail", f"HTTP {status}")))
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.field = body.get("field")
        self.body = body


class UnreachableError(Exception):
    """Nobody answered. A request that changes something may have been done all the same."""


class AsyncClient:
    """Calls a server with one key. Use it as a context manager."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(TIMEOUT_SECONDS)
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session:
            await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Call a route below /api/v1 and give the decoded answer, or raise what was refused."""
        if self._session is None:
            raise RuntimeError("use the client as a context manager")
        sent = {name: str(value) for name, value in (query or {}).items() if value is not None}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        try:
            async with self._session.request(
                method, f"{self._url}{BASE}{path}", json=body, params=sent, headers=headers
            ) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(f"{self._url} does not answer: {error}") from error
        answer = _decode(data)
        if not response.ok:
            raise ProblemError(response.status, answer if isinstance(answer, dict) else {})
        return answer

    async def pages(
        self, path: str, noun: str, query: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        """Go through a list page by page."""
        cursor: str | None = None
        while True:
            page = await self.call("GET", path, query={**(query or {}), "cursor": cursor})
            for item in page[noun]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def schedule_payment(
        self,
        from_account_id: str,
        to_account_id: str,
        amount: int,
        *,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Any:
        """Schedule a payment; give `delay_seconds` or `scheduled_time`.

        Pass an `idempotency_key` of your own where the call may be repeated by another process.
        """
        body = {
            "from_account_id": from_account_id,
            "to_account_id": to_account_id,
            "amount": amount,
            **fields,
        }
        key = idempotency_key or secrets.token_urlsafe(16)
        return await self.call("POST", "/payments/schedule", body, idempotency_key=key)

    async def cancel_payment(self, payment_id: str) -> Any:
        """Cancel a payment that is not yet settled."""
        return await self.call("DELETE", f"/payments/{quote(payment_id, safe='')}/cancel")

    async def accept_job(
        self, destination: Mapping[str, Any], *, idempotency_key: str | None = None, **fields: Any
    ) -> Any:
        """Register a job; give `delay_seconds` or `run_at`, and `payload`, `lane` or `retry`."""
        body = {"destination": destination, **fields}
        return await self.call("POST", "/jobs", body, idempotency_key=idempotency_key)

    async def claim(
        self, lane: str, *, most: int = 10, lease_seconds: float = 60, wait_seconds: float = 20
    ) -> list[Any]:
        """Claim due jobs of a lane, waiting for one if there is none."""
        body = {"max": most, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds}
        answer = await self.call("POST", f"/lanes/{quote(lane, safe='')}/claim", body)
        leases: list[Any] = answer["leases"]
        return leases


class Client:
    """The same calls for programs without an event loop."""

    def __init__(self, url: str, key: str) -> None:
        self._client = AsyncClient(url, key)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._client.__aexit__(kind, error, trace))
        self._runner.close()

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Call a route below /api/v1; the options are those of `AsyncClient.call`."""
        return self._runner.run(self._client.call(method, path, body, **options))

    def schedule_payment(self, *accounts_and_amount: Any, **fields: Any) -> Any:
        """Schedule a payment as `AsyncClient.schedule_payment` does."""
        return self._runner.run(self._client.schedule_payment(*accounts_and_amount, **fields))

    def cancel_payment(self, payment_id: str) -> Any:
        """Cancel a payment that is not yet settled."""
        return self._runner.run(self._client.cancel_payment(payment_id))

    def accept_job(self, destination: Mapping[str, Any], **fields: Any) -> Any:
        """Register a job as `AsyncClient.accept_job` does."""
        return self._runner.run(self._client.accept_job(destination, **fields))

    def claim(self, lane: str, **options: Any) -> list[Any]:
        """Claim due jobs as `AsyncClient.claim` does."""
        return self._runner.run(self._client.claim(lane, **options))


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError:
        return None
