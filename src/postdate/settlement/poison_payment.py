"""A payment that broke its batch: retried with growing delays, then parked or ended."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey
from postdate.audit.spec import SYSTEM
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import TransientError
from postdate.event.store.event import record_event
from postdate.halt import store as halt_store
from postdate.ledger.batch import pause
from postdate.ledger.hold import release
from postdate.payment.spec.payment import BROKE
from postdate.payment.store import settlement as store
from postdate.payment.store.settlement import (
    FailedAttempt,
    LockedPayment,
    LockedTimer,
    SettlementBatch,
)

log = Log()

ERROR_CHARACTERS: Final = 500


async def record(
    database: Database, settings: Settings, key: tuple[int, UUID], error: Exception
) -> int:
    """Record the failed execution, and retry, park or end the payment."""
    text = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
    async with database.write("settle.give_up") as connection:
        payments, held = await store.lock(connection, [key])
        await halt_store.set_aside(connection, held)
        for payment in payments:
            wait = await _wait(connection, settings, payment)
            if wait is not None:
                await _retry(connection, payment, text, wait)
            elif not await _released(connection, settings, payment, text):
                await _park(connection, payment, text)
    return len(payments) + len(held)


async def _wait(connection: Connection, settings: Settings, timer: LockedTimer) -> timedelta | None:
    count = await store.count_tries(connection, timer, BROKE)
    if count >= settings.integer("payment.retry_attempts", timer.tenant_id):
        return None
    return pause(settings.number("payment.retry_seconds", timer.tenant_id), count)


async def _retry(connection: Connection, timer: LockedTimer, text: str, wait: timedelta) -> None:
    ending = FailedAttempt(timer, BROKE, text, timer.at + wait)
    await store.write_attempts(connection, [ending], SettlementBatch(timer.at))
    await store.retry(connection, [ending])
    data = {"code": BROKE, "error": text, "retry_at": ending.retry_at}
    await _record_event(connection, timer, "payment.retried", data)


async def _park(connection: Connection, timer: LockedTimer, text: str) -> None:
    """Park the payment for a person; its hold stays."""
    await store.write_attempts(
        connection, [FailedAttempt(timer, BROKE, text)], SettlementBatch(timer.at)
    )
    await store.park(connection, timer)
    data = {"code": BROKE, "error": text}
    await _record_event(connection, timer, "payment.dead_lettered", data)


async def _released(
    connection: Connection, settings: Settings, payment: LockedPayment, text: str
) -> bool:
    """End the payment and release its hold if `on_broken` says so; return False otherwise.

    The error that broke settlement may break this too. Then the payment waits for a person.
    """
    wished = await store.on_broken(connection, payment)
    if (wished or settings.get("payment.on_broken", payment.tenant_id)) == "hold":
        return False
    try:
        async with connection.transaction():
            await _fail(connection, payment, text)
    except Exception as error:
        if isinstance(error, TransientError):
            raise
        log.exception("payment.not_released", payment_id=str(payment.subject))
        return False
    return True


async def _fail(connection: Connection, payment: LockedPayment, text: str) -> None:
    if payment.hold:
        key = AccountKey(payment.bucket, payment.tenant_id, payment.from_account)
        accounts = await account_store.lock(connection, [key])
        release(accounts[key], payment.amount)
        await account_store.write(connection, list(accounts.values()))
    await store.write_failed(
        connection, [FailedAttempt(payment, BROKE, text)], SettlementBatch(payment.at)
    )
    data = {"code": BROKE, "error": text}
    await _record_event(connection, payment, "payment.failed", data)
    await store.delete(connection, [payment])


async def _record_event(
    connection: Connection, timer: LockedTimer, kind: str, data: dict[str, Any]
) -> None:
    await record_event(connection, (timer.tenant_id, timer.subject), kind, SYSTEM, data)
