"""Ask for jobs and payments inside your own transaction, in the PostgreSQL that Postdate uses.

Committed means scheduled; rolled back means never there. The SQL functions do the work: these are
thin wrappers that write the call for asyncpg, psycopg, SQLAlchemy and Django, and turn a refusal
into the same classes that the HTTP client raises. None of the drivers is imported here.
"""

import base64
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET

from postdate.client import encoding
from postdate.client.errors import ProblemError
from postdate.client.problems import BY_CODE

AnyId = TypeVar("AnyId")
Nothing = TypeVar("Nothing")

_TYPES: Final = {
    "enqueue": {
        "destination": "jsonb",
        "payload": "jsonb",
        "payload_bytes": "bytea",
        "payload_ref": "text",
        "content_type": "text",
        "run_at": "timestamptz",
        "delay_seconds": "float8",
        "lane": "text",
        "key": "text",
        "priority": "integer",
        "retry": "jsonb",
        "timeout_seconds": "float8",
        "expires_at": "timestamptz",
        "metadata": "jsonb",
        "description": "text",
        "idempotency_key": "text",
        "unique_by": "jsonb",
    },
    "schedule_payment": {
        "from_account_id": "text",
        "to_account_id": "text",
        "amount": "bigint",
        "idempotency_key": "text",
        "delay_seconds": "bigint",
        "scheduled_time": "timestamptz",
        "description": "text",
        "funding": "text",
        "retry_until": "timestamptz",
        "on_broken": "text",
    },
    "cancel": {"id": "uuid"},
}
"""The functions and the types of their arguments, which all go as text."""

_OWN_STATE: Final = "PD"
_REPEAT: Final = "40001"
_REPEAT_STATUS: Final = 409


def refusal_of(error: BaseException) -> ProblemError | None:
    """Return the refusal in a driver's error, at a call or at the commit; None: something else."""
    seen: set[int] = set()
    at: Any = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        found = _refusal(at)
        if found is not None:
            return found
        at = getattr(at, "orig", None) or at.__cause__
    return None


def _refusal(error: Any) -> ProblemError | None:
    diagnosis = getattr(error, "diag", None)
    state = getattr(error, "sqlstate", None) or getattr(diagnosis, "sqlstate", None) or ""
    detail = getattr(error, "detail", None) or getattr(diagnosis, "message_detail", None)
    if not isinstance(detail, str) or not (state.startswith(_OWN_STATE) or state == _REPEAT):
        return None
    try:
        body = msgspec.json.decode(detail, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    status = _REPEAT_STATUS if state == _REPEAT else int(state.removeprefix(_OWN_STATE))
    body["detail"] = getattr(diagnosis, "message_primary", None) or _first_line(error)
    refusal = BY_CODE.get(str(body.get("code")), ProblemError)(status, body)
    refusal.retry_after_seconds = body.get("retry_after_seconds")
    return refusal


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def refusals() -> Iterator[None]:
    """Raise a refusal by its own class, wherever in this block it comes: put it around a commit.

    It is a plain `with` also around `async with connection.transaction()`.
    """
    try:
        yield
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        raise refusal from error


class _Calls(ABC, Generic[AnyId, Nothing]):
    """The calls. What they return is awaited where the driver's calls are."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._driver = type(connection).__module__.partition(".")[0]
        if self._driver not in {"asyncpg", "psycopg", "sqlalchemy", "django"}:
            kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
            raise TypeError(f"{kind} is no connection of asyncpg, psycopg, SQLAlchemy or Django")

    def enqueue(  # noqa: PLR0913 - what a job has, by name
        self,
        *,
        destination: Mapping[str, Any],
        payload: Any = UNSET,
        run_at: datetime | None = None,
        delay_seconds: float | timedelta | None = None,
        lane: str | None = None,
        idempotency_key: str | None = None,
        retry: Mapping[str, Any] | None = None,
        timeout_seconds: float | timedelta | None = None,
        expires_at: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        description: str | None = None,
        payload_base64: str | None = None,
        content_type: str | None = None,
        payload_ref: str | None = None,
        unique: Mapping[str, Any] | None = None,
        key: str | None = None,
        priority: int | None = None,
    ) -> AnyId:
        """Schedule a job; it is there when your transaction commits. Return its id.

        With `unique`, the id is that of the job that waits under the key now, if there is one; the
        commit decides which job that is.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        return self._id("enqueue", _job(given))

    def schedule_payment(  # noqa: PLR0913 - what a payment has, by name
        self,
        *,
        from_account_id: str,
        to_account_id: str,
        amount: int,
        idempotency_key: str,
        delay_seconds: int | timedelta | None = None,
        scheduled_time: datetime | None = None,
        description: str | None = None,
        funding: str | None = None,
        retry_until: datetime | None = None,
        on_broken: str | None = None,
    ) -> AnyId:
        """Schedule a payment; its amount is held when your transaction commits. Return its id."""
        given = {name: value for name, value in locals().items() if name != "self"}
        return self._id("schedule_payment", given)

    def cancel(self, subject: UUID | str) -> Nothing:
        """Cancel a job or payment when your transaction commits."""
        return self._nothing("cancel", {"id": subject})

    @abstractmethod
    def _id(self, function: str, given: Mapping[str, Any]) -> AnyId:
        """Call a function that returns an id."""

    @abstractmethod
    def _nothing(self, function: str, given: Mapping[str, Any]) -> Nothing:
        """Call a function that returns nothing."""

    def _statement(self, function: str, given: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return the statement and its arguments, without those that were left out."""
        types = _TYPES[function]
        wanted = {n: v for n, v in given.items() if v is not UNSET and _says(n, v)}
        parts = [
            f"{name} => CAST(CAST({self._mark(number)} AS text) AS {types[name]})"
            for number, name in enumerate(wanted, 1)
        ]
        texts = [_text(name, types[name], value) for name, value in wanted.items()]
        return f"SELECT postdate.{function}({', '.join(parts)})", texts

    def _mark(self, number: int) -> str:
        return {"asyncpg": f"${number}", "sqlalchemy": f":p{number}"}.get(self._driver, "%s")


def _says(name: str, value: Any) -> bool:
    """Return whether an argument says something: a payload of None is JSON's null."""
    return value is not None or name == "payload"


def _text(name: str, kind: str, value: Any) -> str:
    if kind == "jsonb":
        own = value if name in encoding.OPAQUE else encoding.plain(value, name)
        return msgspec.json.encode(own).decode()
    if kind == "bytea":
        return "\\x" + bytes(value).hex()
    return str(encoding.plain(value, name))


def _job(given: dict[str, Any]) -> dict[str, Any]:
    given["unique_by"] = given.pop("unique", None)
    encoded = given.pop("payload_base64", None)
    if encoded is not None:
        given["payload_bytes"] = base64.b64decode(encoded, validate=True)
    return given


class OwnTransaction(_Calls[UUID, None]):
    """Calls over a `Connection` of psycopg or Django, a `Connection` or `Session` of SQLAlchemy."""

    def _id(self, function: str, given: Mapping[str, Any]) -> UUID:
        return UUID(str(self._run(function, given)))

    def _nothing(self, function: str, given: Mapping[str, Any]) -> None:
        self._run(function, given)

    def _run(self, function: str, given: Mapping[str, Any]) -> Any:
        statement, texts = self._statement(function, given)
        with refusals():
            if self._driver == "psycopg":
                return self._connection.execute(statement, texts).fetchone()[0]
            if self._driver == "django":
                with self._connection.cursor() as cursor:
                    cursor.execute(statement, texts)
                    return cursor.fetchone()[0]
            return self._connection.execute(*_bound(statement, texts)).scalar_one()


class AsyncOwnTransaction(_Calls[Coroutine[Any, Any, UUID], Coroutine[Any, Any, None]]):
    """Calls over asyncpg, psycopg's `AsyncConnection`, `AsyncConnection` or `AsyncSession`."""

    async def _id(self, function: str, given: Mapping[str, Any]) -> UUID:
        return UUID(str(await self._run(function, given)))

    async def _nothing(self, function: str, given: Mapping[str, Any]) -> None:
        await self._run(function, given)

    async def _run(self, function: str, given: Mapping[str, Any]) -> Any:
        statement, texts = self._statement(function, given)
        with refusals():
            if self._driver == "asyncpg":
                return await self._connection.fetchval(statement, *texts)
            if self._driver == "psycopg":
                cursor = await self._connection.execute(statement, texts)
                return (await cursor.fetchone())[0]
            return (await self._connection.execute(*_bound(statement, texts))).scalar_one()


def _bound(statement: str, texts: list[str]) -> tuple[Any, dict[str, str]]:
    """Return a statement of SQLAlchemy, which whoever has a connection of it has installed."""
    from sqlalchemy import text

    return text(statement), {f"p{number}": value for number, value in enumerate(texts, 1)}
