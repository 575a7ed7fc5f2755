"""The helpers for asyncpg, psycopg and SQLAlchemy: the same calls, the same refusals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from conftest import Api
from postdate.client.own_transaction import AsyncOwnTransaction, OwnTransaction, refusals
from postdate.client.problems import InsufficientFundsError, NotFoundError
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import PASSWORD, OwnRole, own_role, status

WORKER = {"type": "worker"}


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def role(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        yield role


def address(role: OwnRole, driver: str) -> sqlalchemy.URL:
    """Write the address of the embedded server for SQLAlchemy."""
    parts = urlsplit(role.dsn)
    asked = parse_qs(parts.query)
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username=role.name,
        password=PASSWORD,
        database=parts.path.lstrip("/"),
        query={name: asked[name][0] for name in ("host", "port")},
    )


def plain(role: OwnRole) -> str:
    """Write it for psycopg."""
    return address(role, "psycopg").render_as_string(hide_password=False).replace("+psycopg", "")


async def begin(stack: AsyncExitStack, role: OwnRole, driver: str) -> Any:
    """Open a connection and a transaction of a driver; they end with the stack."""
    match driver:
        case "asyncpg":
            connection = await stack.enter_async_context(role.connect())
            await stack.enter_async_context(connection.transaction())
            return connection
        case "psycopg":
            opened = await psycopg.AsyncConnection.connect(plain(role))
            return await stack.enter_async_context(opened)
        case _:
            engine = create_async_engine(address(role, "asyncpg"))
            stack.push_async_callback(engine.dispose)
            if driver == "session":
                session = await stack.enter_async_context(AsyncSession(engine))
                await stack.enter_async_context(session.begin())
                return session
            return await stack.enter_async_context(engine.begin())


ASYNC = ["asyncpg", "psycopg", "connection", "session"]


@pytest.mark.parametrize("driver", ASYNC)
async def test_the_async_helpers_work_with_every_driver(
    ledger: Ledger, role: OwnRole, driver: str
) -> None:
    async with AsyncExitStack() as stack:
        own = AsyncOwnTransaction(await begin(stack, role, driver))
        job_id = await own.enqueue(
            destination=WORKER, payload={"at": "née"}, delay_seconds=timedelta(hours=1)
        )
        opaque = await own.enqueue(destination=WORKER, payload_base64="AAEC")
        null = await own.enqueue(destination=WORKER, payload=None)
        gone = await own.enqueue(destination=WORKER)
        await own.cancel(gone)
        payment_id = await own.schedule_payment(
            from_account_id="alice",
            to_account_id="bob",
            amount=10,
            idempotency_key=driver,
            delay_seconds=60,
        )
    assert await status(ledger, f"/jobs/{job_id}") == "PENDING"
    seen = (await ledger.api.call("GET", f"/jobs/{opaque}")).body
    assert seen["content_type"] == "application/octet-stream"
    seen = (await ledger.api.call("GET", f"/jobs/{null}")).body
    assert seen["content_type"] == "application/json"
    assert await status(ledger, f"/jobs/{gone}") == 404
    assert await status(ledger, f"/payments/{payment_id}") == "PENDING"


@pytest.mark.parametrize("driver", ASYNC)
async def test_a_refusal_is_the_class_of_the_client(
    ledger: Ledger, role: OwnRole, driver: str
) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            own = AsyncOwnTransaction(await begin(stack, role, driver))
            await own.schedule_payment(
                from_account_id="alice",
                to_account_id="bob",
                amount=1001,
                delay_seconds=60,
                idempotency_key=f"much-{driver}",
            )

    with pytest.raises(InsufficientFundsError) as refused:
        await run()
    assert refused.value.field == "amount"
    assert refused.value.body["available"] == 1000
    assert await ledger.held() == 0


@pytest.mark.parametrize("driver", ["asyncpg", "session"])
async def test_a_refusal_at_the_commit_too(ledger: Ledger, role: OwnRole, driver: str) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            own = AsyncOwnTransaction(await begin(stack, role, driver))
            await own.schedule_payment(
                from_account_id="alice",
                to_account_id="bob",
                amount=900,
                delay_seconds=60,
                idempotency_key=f"late-{driver}",
            )
            assert (await ledger.order(amount=500)).status == 201

    with pytest.raises(InsufficientFundsError), refusals():
        await run()
    assert await ledger.held() == 500


def synchronous(role: OwnRole) -> list[str]:
    found = []
    with psycopg.connect(plain(role)) as connection:
        own = OwnTransaction(connection)
        found.append(str(own.enqueue(destination=WORKER, payload=[1])))
    engine = sqlalchemy.create_engine(address(role, "psycopg"))
    with engine.begin() as connection_of_engine:
        found.append(str(OwnTransaction(connection_of_engine).enqueue(destination=WORKER)))
    with Session(engine) as session, session.begin():
        own = OwnTransaction(session)
        found.append(str(own.enqueue(destination=WORKER, lane="mail", metadata={"kind": "a"})))
        with pytest.raises(NotFoundError), session.begin_nested():
            own.cancel("0198c0de-5a4e-7abc-8def-0123456789ab")
    engine.dispose()
    return found


async def test_the_sync_helpers_enqueue_jobs(ledger: Ledger, role: OwnRole) -> None:
    for job_id in await asyncio.to_thread(synchronous, role):
        assert await status(ledger, f"/jobs/{job_id}") == "READY"


def test_something_else_is_no_connection() -> None:
    with pytest.raises(TypeError, match=r"builtins\.str is no connection of asyncpg"):
        OwnTransaction("postgresql://…")


async def test_other_errors_stay_as_they_are(role: OwnRole) -> None:
    async with role.connect() as connection:
        with pytest.raises(asyncpg.DivisionByZeroError), refusals():
            await connection.execute("SELECT 1 / 0")
