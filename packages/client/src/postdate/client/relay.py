"""An outbox in your own database, whichever it is, and the relay that sends what it holds.

Write a row in the transaction of your business; the relay sends it over HTTP, under a key made of
the row's id, and marks it. If it dies between the two, it sends the row again, and the key makes
that the same job or payment: at least once, and idempotent, is once.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from postdate.client.client import Client
from postdate.client.errors import ProblemError

TABLE: Final = """CREATE TABLE {table} (
    id         {id} PRIMARY KEY,
    operation  VARCHAR(16) NOT NULL,
    body       {json} NOT NULL,
    created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    sent_at    VARCHAR(40),
    subject    VARCHAR(40),
    error      VARCHAR(1000)
)"""
"""The table, for any database; `table_for` fills it in."""

_COLUMNS: Final = {
    "sqlite": ("INTEGER", "TEXT"),
    "mysql": ("BIGINT AUTO_INCREMENT", "LONGTEXT"),
    "postgresql": ("BIGINT GENERATED ALWAYS AS IDENTITY", "TEXT"),
}

_PATHS: Final = {
    "job": ("POST", "/jobs", "job_id"),
    "payment": ("POST", "/payments/schedule", "payment_id"),
    "cancel_job": ("POST", "/jobs/{}/cancel", None),
    "cancel_payment": ("DELETE", "/payments/{}/cancel", None),
}
_LATER: Final = frozenset(
    {"tenant_halted", "quota_exceeded", "idempotency_in_flight", "unauthenticated", "forbidden"}
)
"""Refusals that another moment, or another key, may lift: the row stays."""

_SERVER_ERROR: Final = 500
_TOO_MANY: Final = 429
_ERROR_CHARACTERS: Final = 1000
_SOURCE: Final = re.compile(r"[ -~]{1,200}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,120}")


class OutboxConnection(Protocol):
    """What the relay needs of a DB-API connection."""

    def cursor(self) -> Any:
        """Open a cursor."""

    def commit(self) -> None:
        """Commit."""


def table_for(database: str, table: str = "postdate_outbox") -> str:
    """Return the statement that makes the outbox: `sqlite`, `mysql` or `postgresql`."""
    if database not in _COLUMNS:
        raise ValueError(f"{database} is none of {', '.join(sorted(_COLUMNS))}")
    kind, json = _COLUMNS[database]
    return TABLE.format(table=_checked(table), id=kind, json=json)


class OutboxRelay:
    """Sends the rows of an outbox in the order of their ids.

    `source` tells this outbox from others of the same tenant: it is part of every key, so it must
    never change. Several relays may run: a row that two of them send is still one job.
    """

    def __init__(
        self,
        client: Client,
        connection: OutboxConnection,
        *,
        table: str = "postdate_outbox",
        source: str | None = None,
        paramstyle: str = "qmark",
    ) -> None:
        self._client = client
        self._connection = connection
        self._table = _checked(table)
        self._source = _checked_source(source or table)
        self._mark_of = _marks(paramstyle)
        self._named = paramstyle in {"named", "pyformat"}

    def run_once(self, limit: int = 100) -> int:
        """Send up to so many rows, and mark each; return how many were sent or refused.

        Raise what another moment may lift (no answer, an overloaded server, a halted tenant, a key
        that is not taken): the row stays, and so do those behind it.
        """
        rows = self._rows(limit)
        for row_id, operation, body in rows:
            subject, error = self._send(row_id, operation, body)
            self._mark(row_id, subject, error)
        return len(rows)

    def _rows(self, limit: int) -> Sequence[Any]:
        cursor = self._connection.cursor()
        cursor.execute(
            f"SELECT id, operation, body FROM {self._table} "  # noqa: S608 - the name is checked
            f"WHERE sent_at IS NULL ORDER BY id LIMIT {int(limit)}"
        )
        rows: Sequence[Any] = cursor.fetchall()
        self._connection.commit()
        return rows

    def _send(self, row_id: Any, operation: str, body: Any) -> tuple[str | None, str | None]:
        try:
            return self._answer(row_id, operation, body), None
        except ProblemError as error:
            if error.status >= _SERVER_ERROR or error.status == _TOO_MANY or error.code in _LATER:
                raise
            return None, str(error)
        except (msgspec.MsgspecError, _BadRowError) as error:
            return None, f"{error} [bad_row]"

    def _answer(self, row_id: Any, operation: str, body: Any) -> str:
        if operation not in _PATHS:
            known = ", ".join(sorted(_PATHS))
            raise _BadRowError(f"operation is one of {known}, not {operation}")
        method, path, subject = _PATHS[operation]
        given = _decoded(body)
        if subject is None:
            name = _id_of(given)
            self._client.call(method, path.format(name))
            return name
        key = f"{self._source}:{row_id}"
        answer = self._client.call(method, path, given, idempotency_key=key)
        return str(answer[subject])

    def _mark(self, row_id: Any, subject: str | None, error: str | None) -> None:
        values = [datetime.now(UTC).isoformat(), subject, error and error[:_ERROR_CHARACTERS]]
        marks = [self._mark_of(number) for number in range(1, 5)]
        self._connection.cursor().execute(
            f"UPDATE {self._table} SET sent_at = {marks[0]}, "  # noqa: S608 - the name is checked
            f"subject = {marks[1]}, error = {marks[2]} WHERE id = {marks[3]}",
            self._parameters([*values, row_id]),
        )
        self._connection.commit()

    def _parameters(self, values: list[Any]) -> Any:
        if self._named:
            return {f"p{number}": value for number, value in enumerate(values, 1)}
        return tuple(values)


class _BadRowError(Exception):
    """A row that no server would understand."""


def _decoded(body: Any) -> Mapping[str, Any]:
    """Return a body; some drivers give JSON as text, others as what it says."""
    try:
        given = msgspec.json.decode(body) if isinstance(body, str | bytes) else body
    except RecursionError:
        raise _BadRowError("the body nests too deeply") from None
    if not isinstance(given, Mapping):
        raise _BadRowError("the body is a JSON object")
    return given


def _id_of(given: Mapping[str, Any]) -> str:
    """Return what is cancelled: an id and nothing else goes into the path of a request."""
    try:
        return str(UUID(given["id"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise _BadRowError('the body of a cancellation is {"id": "…"}') from None


def _checked_source(source: str) -> str:
    if _SOURCE.fullmatch(source) is None:
        raise ValueError(f"{source!r} is no source: 1 to 200 printable ASCII characters")
    return source


def _checked(table: str) -> str:
    if _NAME.fullmatch(table) is None:
        raise ValueError(f"{table!r} is no name of a table")
    return table


def _marks(paramstyle: str) -> Any:
    styles = {
        "qmark": lambda _: "?",
        "format": lambda _: "%s",
        "numeric": lambda number: f":{number}",
        "numeric_dollar": lambda number: f"${number}",
        "named": lambda number: f":p{number}",
        "pyformat": lambda number: f"%(p{number})s",
    }
    if paramstyle not in styles:
        raise ValueError(f"{paramstyle} is none of {', '.join(styles)}")
    return styles[paramstyle]
