"""`postdate relay`: send the rows of an outbox in another database."""

import sqlite3
import time
from typing import Annotated, Any, Final

from cyclopts import Parameter

from postdate.cli.output import UsageError, show
from postdate.cli.remote import connected
from postdate.client.errors import PostdateError
from postdate.client.relay import OutboxRelay

SQLITE: Final = "sqlite:///"
MAX_PAUSE_SECONDS: Final = 30.0


def relay(
    *,
    from_: Annotated[
        str,
        Parameter(
            name="--from",
            help="sqlite:///FILE, or any SQLAlchemy URL if SQLAlchemy is installed.",
        ),
    ],
    table: str = "postdate_outbox",
    source: Annotated[
        str | None,
        Parameter(help="Name of this outbox, unique in the tenant; part of every key."),
    ] = None,
    once: Annotated[
        bool, Parameter(negative=(), help="Send the rows that are there now, then exit.")
    ] = False,
    pause_seconds: Annotated[float, Parameter(help="Delay after a poll that finds nothing.")] = 1.0,
) -> None:
    """Send the rows of an outbox over HTTP, each with its own idempotency key, and mark them."""
    connection, paramstyle = _open(from_)
    sent, failures = 0, 0
    with connected(retries=2) as client:
        outbox = OutboxRelay(client, connection, table=table, source=source, paramstyle=paramstyle)
        while True:
            try:
                found = outbox.run_once()
                failures = 0
            except PostdateError:
                if once:
                    raise
                found, failures = 0, failures + 1
            sent += found
            if once and not found:
                break
            if not found:
                time.sleep(min(pause_seconds * 2**failures, MAX_PAUSE_SECONDS))
    show({"sent": sent})


def _open(address: str) -> tuple[Any, str]:
    """Return a DB-API connection, and how it marks parameters."""
    if address.startswith(SQLITE):
        return sqlite3.connect(address.removeprefix(SQLITE)), sqlite3.paramstyle
    try:
        from sqlalchemy import create_engine
    except ImportError as error:
        raise UsageError("--from needs SQLAlchemy for this address: pip install it") from error
    engine = create_engine(address)
    return engine.raw_connection(), engine.dialect.paramstyle
