"""Execute one due payment on request; repeating a request moves money once."""

from typing import Final
from uuid import UUID

import msgspec
from msgspec.structs import astuple

from postdate.core.instant import instant_text
from postdate.core.setting.setting import Settings
from postdate.core.status import PaymentStatus
from postdate.database.connection.database import Connection, Database
from postdate.halt import store as halt_store
from postdate.ledger import batch
from postdate.ledger.hold import AccountContradictionError
from postdate.ledger.settle import RetryLater, TransferCompleted, TransferFailed
from postdate.payment.change.change import not_pending
from postdate.payment.spec.payment import execution_name
from postdate.payment.store import payment_change as store
from postdate.payment.store import settlement as settlement_store
from postdate.payment.store.payment_change import OpenPayment
from postdate.payment.store.settlement import LockedPayment
from postdate.setting import store as setting_store
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import Code, RefusedError, not_found, refuse

STOPPED: Final = "settlement.stopped"
ACTOR: Final = "internal"


class Executed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an execution ended: the payment is settled, by it or before it, or it failed here."""

    success: bool
    execution_id: str
    status: PaymentStatus
    settled_by_execution_id: str
    transfer_id: UUID | None = None
    error_message: str | None = None


class PaymentExecutions:
    """Settles a due payment on request."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    async def execute(self, payment_id: UUID, execution_id: str) -> Executed:
        """Settle the payment, or return who did; refuse if it is not due or ended otherwise."""
        refused: RefusedError | None = None
        async with self._database.write("payment.execute") as connection:
            # Before any row: the code that ends a halt holds this lock and then waits for timers.
            await halt_store.share(connection)
            found = await store.lock(connection, payment_id, None)
            if found is not None:
                # The decision must be committed first, so the refusal is raised afterwards.
                refused = await self._settle(connection, found, execution_id)
        if refused is not None:
            raise refused
        async with self._database.connection() as connection:
            settled = await _settled(connection, payment_id, execution_id)
        await self._database.confirm()
        return settled

    async def _settle(
        self, connection: Connection, found: OpenPayment, execution_id: str
    ) -> RefusedError | None:
        timer = found.timer
        if found.unapproved:
            detail = f"The payment {timer.subject} needs a second person's approval."
            raise refuse(Code.APPROVAL_MISSING, detail, payment_status=PaymentStatus.PENDING)
        if not found.parked and timer.due_at > timer.at:
            raise refuse(
                Code.NOT_DUE,
                f"The payment {timer.subject} is due at {instant_text(timer.due_at)}.",
                payment_status=PaymentStatus.PENDING,
                scheduled_time=timer.due_at,
            )
        await halt_store.refuse_held(connection, [timer.tenant_id])
        if reason := await setting_store.find(connection, STOPPED):
            raise refuse(
                Code.SETTLEMENT_STOPPED, f"Settlement was stopped: {reason}", retry_after_seconds=60
            )
        if timer.due_at < self._settings.floor:
            raise refuse(
                Code.UNAVAILABLE,
                f"The payment {timer.subject} was due before a restore that is not confirmed.",
                retry_after_seconds=60,
            )
        settling = batch.Settling(
            unix_ms=self._database.unix_ms(),
            retry_seconds=self._settings.number("payment.retry_seconds", timer.tenant_id),
            execution_id=execution_id,
            actor=ACTOR,
            settings=self._settings,
        )
        terms = await settlement_store.terms(connection, timer.tenant_id, timer.subject)
        if terms is None:
            raise not_found("payment", timer.subject)
        payment = LockedPayment(*astuple(timer), *astuple(terms))
        try:
            decision = (await batch.settle(connection, [payment], settling))[0]
        except AccountContradictionError as error:
            # Settlement sets such a payment aside.
            detail = f"The payment {timer.subject} contradicts its accounts: run `postdate prove`."
            raise refuse(Code.CONFLICT, detail) from error
        if isinstance(decision, RetryLater):
            return refuse(
                Code.NOT_DUE,
                decision.error,
                payment_status=PaymentStatus.PENDING,
                scheduled_time=decision.at,
            )
        if not isinstance(decision, TransferCompleted | TransferFailed):
            raise TypeError(f"an execution by name ended in {decision}")
        return None


async def _settled(connection: Connection, payment_id: UUID, execution_id: str) -> Executed:
    ended = await store.find_end(connection, payment_id)
    if ended is None:
        raise await _without_end(connection, payment_id)
    if await settlement_store.terms(connection, ended.tenant_id, payment_id) is None:
        raise not_found("payment", payment_id)
    by = ended.execution_id or execution_name(payment_id, ended.attempt)
    completed = ended.status == PaymentStatus.COMPLETED
    failed_here = ended.status == PaymentStatus.FAILED and by == execution_id
    if not completed and not failed_here:
        raise await not_pending(connection, ended.tenant_id, payment_id)
    return Executed(
        success=completed,
        execution_id=execution_id,
        status=PaymentStatus(ended.status),
        settled_by_execution_id=by,
        transfer_id=ended.transfer_id,
        error_message=ended.error,
    )


async def _without_end(connection: Connection, payment_id: UUID) -> RefusedError:
    tenant_id = await lost_timer.tenant_of(connection, payment_id)
    if tenant_id is None:
        return not_found("payment", payment_id)
    return lost_timer.is_lost(LostTimer(tenant_id, payment_id, "payment"))
