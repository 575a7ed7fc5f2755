"""Move and cancel pending payments by a filter, and undo that as far as it is still possible."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Final
from uuid import UUID

from postdate.change_set.change.change import (
    ChangeStep,
    PaymentBulkFilter,
    PaymentItemChanges,
    ReschedulePayments,
)
from postdate.change_set.change.step_work import StepWork, check_not_executed
from postdate.core.identity import Identity
from postdate.core.status import PaymentStatus
from postdate.core.test_clock import own_lane
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import record_events
from postdate.foresight.spec.hypothesis import Hypothesis, MovedItem
from postdate.foresight.spec.money import ExpectedPayment, due_at
from postdate.foresight.store import money as money_store
from postdate.intake.idempotency import Refused
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.accept.request import PaymentRequest, RefundedPayment
from postdate.payment.change.change import LockedOpen, PaymentChanges, PaymentMoved
from postdate.payment.spec.payment import PaymentOrder, RetryUntil, When, instant
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import PaymentAsAccepted, PaymentRow
from postdate.payment.store.payment_change import OpenPayment
from postdate.timer.timer import LANE_PAYMENT
from postdate.words.error import Code, RefusedError, refuse

MAX_PAYMENTS: Final = 1000
"""The most payments of one change; `more` says that some are left."""

BATCH: Final = 50
"""The most payments of one transaction: their accounts are locked together."""

WALK_LIMIT: Final = 100_000
"""If more become due, those of all tenants counted, only the first of each bucket are read."""

BUCKET_LIMIT: Final = 1500
YEAR: Final = timedelta(days=366)
SOON: Final = When(1, None)


class PaymentOperation:
    """Changes many payments."""

    def __init__(
        self, database: Database, changes: PaymentChanges, payments: PaymentIntake
    ) -> None:
        self._database = database
        self._changes = changes
        self._payments = payments

    async def plan(self, actor: Identity, change: PaymentItemChanges) -> ChangeStep:
        """Fix the payments that match now, the earliest due first."""
        if change.filter == PaymentBulkFilter():
            raise refuse(Code.INVALID_FIELD, "The filter needs at least one field.", "filter")
        if isinstance(change, ReschedulePayments):
            await self._target(change)
        found, whole = await self._matching(actor, change.filter)
        kept = found[:MAX_PAYMENTS]
        return ChangeStep(
            payments=[terms.payment_id for _, terms in kept if terms.payment_id is not None],
            amount=sum(terms.amount for _, terms in kept),
            more=len(found) > len(kept) or not whole,
        )

    async def suppose(
        self, actor: Identity, change: PaymentItemChanges, step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add the new instants of the payments to the assumptions."""
        to = await self._target(change) if isinstance(change, ReschedulePayments) else None
        hypothesis.payments |= dict.fromkeys(step.payments, to)
        hypothesis.amount += step.amount
        wanted = set(step.payments)
        found, _ = await self._matching(actor, change.filter)
        hypothesis.moved += [
            MovedItem(own_lane(LANE_PAYMENT), due_at(each), to)
            for each in found
            if each[1].payment_id in wanted
        ]

    async def make(self, work: StepWork, change: PaymentItemChanges) -> None:
        """Change the payments that are still pending; each transaction records its changes."""
        actor, step = work.actor, work.step
        if isinstance(change, ReschedulePayments):
            step.to = step.to or await self._target(change)
        for some in _batches([each for each in step.payments if each not in step.due]):
            if isinstance(change, ReschedulePayments):
                when = When(None, step.to)
                moves = dict.fromkeys(some, partial(_always, when))
                await self._changes.move_these(actor, moves, partial(_moved, work))
            else:
                await self._changes.cancel_these(actor, some, partial(_cancelled, work))
        await work.end(len(step.due))

    async def check_undo(
        self, actor: Identity, change: PaymentItemChanges, step: ChangeStep
    ) -> None:
        """Refuse a key that may not pay as much, and to move payments back if one was executed.

        A cancelled payment is never executed.
        """
        executed, found = 0, 0
        for some in _batches(list(step.due)):
            rows = await self._load(actor, some)
            _check_amounts(actor, rows)
            found += len(rows)
            executed += sum(
                row.status in {PaymentStatus.COMPLETED, PaymentStatus.FAILED} for row in rows
            )
        if isinstance(change, ReschedulePayments):
            check_not_executed("payments", executed, len(step.due) - found)

    async def unmake(self, work: StepWork, change: PaymentItemChanges) -> None:
        """Move payments back, or create new ones for the cancelled ones."""
        for some in _batches(list(work.step.due)):
            if isinstance(change, ReschedulePayments):
                back = {each: partial(_back, work.step) for each in some}
                await self._changes.move_these(work.actor, back, partial(_moved_back, work))
            else:
                await self._restore(work, some)
        left = len(work.step.due) if isinstance(change, ReschedulePayments) else 0
        why = f"{left} payments were changed or ended by others since" if left else None
        await work.end_undone(why)

    async def _restore(self, work: StepWork, payment_ids: Sequence[UUID]) -> None:
        """Accept the same payments again under derived keys, so that each is created once.

        Only cancelled payments: whatever a row of `change_set` says, nothing is paid twice.
        """
        actor, step = work.actor, work.step
        known = await self._cancelled_terms(work, payment_ids)
        paid = await self._paid(actor, known.values())
        requests = [
            PaymentRequest(
                _order(found, step.due[each]),
                f"{work.note}/{each}",
                refunds=None if found.refund_of is None else paid[found.refund_of],
            )
            for each, found in known.items()
        ]
        answers = await self._payments.accept(actor, requests)
        made: dict[UUID, UUID] = {}
        for payment_id, answer in zip(known, answers, strict=True):
            if isinstance(answer, Refused) and answer.refusal.code is Code.FORBIDDEN:
                # Another key may do it, and finds by their keys the payments that exist already.
                raise RefusedError(answer.refusal)
            if isinstance(answer, Refused):
                _leave(step, payment_id, answer.refusal.code)
            else:
                made[payment_id] = answer.subject
        async with self._database.write("payment.restore") as connection:
            data = {old: {"payment_id": new, "reason": work.note} for old, new in made.items()}
            await record_events(connection, actor.tenant_id, "payment.restored", actor.key_id, data)
            step.restored |= made
            await work.record(connection)

    async def _paid(
        self, actor: Identity, terms: Iterable[PaymentAsAccepted]
    ) -> dict[UUID, RefundedPayment]:
        """Return what was paid by each payment that some of these are refunds of."""
        refunded = {each.refund_of for each in terms if each.refund_of is not None}
        rows = await self._load(actor, list(refunded))
        paid = {row.payment_id: row.amount for row in rows}
        # Nothing is refunded of a payment that is no longer kept.
        return {each: RefundedPayment(each, paid.get(each, 0)) for each in refunded}

    async def _cancelled_terms(
        self, work: StepWork, payment_ids: Sequence[UUID]
    ) -> dict[UUID, PaymentAsAccepted]:
        """Return the terms of payments to create again; record in the step why others are not."""
        actor, step = work.actor, work.step
        rows = await self._load(actor, payment_ids)
        statuses = {row.payment_id: row.status for row in rows}
        known: dict[UUID, PaymentAsAccepted] = {}
        async with self._database.connection() as connection:
            for each in payment_ids:
                status = statuses.get(each)
                if each in step.restored:
                    continue
                if status not in {None, PaymentStatus.CANCELLED}:
                    _leave(step, each, f"it is {status}")
                elif status is not None and (
                    terms := await payment_store.as_accepted(connection, actor.tenant_id, each)
                ):
                    known[each] = terms
                else:
                    _leave(step, each, "it is no longer kept")
        return known

    async def _load(self, actor: Identity, payment_ids: Sequence[UUID]) -> list[PaymentRow]:
        reader = self._database.tenant_reader(actor.tenant_id)
        return await payment_store.load(reader, actor.tenant_id, payment_ids)

    async def _target(self, change: ReschedulePayments) -> datetime:
        """Return the instant that payments are moved to; refuse one that is not in the future."""
        async with self._database.connection() as connection:
            now = await clock.now(connection)
        when = When(change.to.delay_seconds, change.to.scheduled_time)
        found = instant(when, now, int(YEAR.total_seconds()), None)
        if not isinstance(found, datetime):
            raise RefusedError(found)
        return found

    async def _matching(
        self, actor: Identity, wanted: PaymentBulkFilter
    ) -> tuple[list[ExpectedPayment], bool]:
        """Return the matching payments by due time, and whether all were found."""
        async with self._database.read(actor.tenant_id) as connection:
            now = await clock.now(connection)
            until = wanted.due_before or now + YEAR
            found = await money_store.open_payments(
                connection, actor.tenant_id, until, (WALK_LIMIT, BUCKET_LIMIT)
            )
        matching = [each for each in found.payments if _matches(each, wanted)]
        matching.sort(key=itemgetter(0))
        return matching, found.whole


def _matches(each: ExpectedPayment, wanted: PaymentBulkFilter) -> bool:
    terms = each[1]
    return (
        wanted.from_account_id in {None, terms.from_account_id}
        and wanted.to_account_id in {None, terms.to_account_id}
        and wanted.schedule_id in {None, terms.schedule_id}
        and (wanted.due_after is None or due_at(each) > wanted.due_after)
    )


def _check_amounts(actor: Identity, rows: Sequence[PaymentRow]) -> None:
    """Refuse a key limited to an amount if one of the payments is larger."""
    if actor.max_amount is not None and any(row.amount > actor.max_amount for row in rows):
        raise refuse(Code.FORBIDDEN, f"The key may pay at most {actor.max_amount:,} minor units.")


def _batches(payment_ids: Sequence[UUID]) -> Iterator[Sequence[UUID]]:
    for begin in range(0, len(payment_ids), BATCH):
        yield payment_ids[begin : begin + BATCH]


def _always(when: When, _found: OpenPayment) -> When:
    return when


def _back(step: ChangeStep, found: OpenPayment) -> When | None:
    """Return when a payment was due, or soon where that has passed; None if others moved it."""
    payment_id = found.timer.subject
    if step.revisions.get(payment_id) != found.revision:
        return None
    before = step.due[payment_id]
    return When(None, before) if before > found.timer.at + timedelta(seconds=1) else SOON


async def _moved(work: StepWork, connection: Connection, moved: Sequence[PaymentMoved]) -> None:
    due = {each.payment_id: each.before for each in moved}
    await work.changed(connection, due, {each.payment_id: each.revision for each in moved})


async def _moved_back(
    work: StepWork, connection: Connection, moved: Sequence[PaymentMoved]
) -> None:
    await work.changed_back(connection, (each.payment_id for each in moved))


async def _cancelled(work: StepWork, connection: Connection, ended: Sequence[LockedOpen]) -> None:
    await work.changed(connection, {found.timer.subject: found.timer.due_at for found, _ in ended})


def _leave(step: ChangeStep, payment_id: UUID, why: str) -> None:
    """Record once why a payment is not created again."""
    if (sentence := f"payment {payment_id}: {why}") not in step.left:
        step.left.append(sentence)


def _order(asked: PaymentAsAccepted, due_at: datetime) -> PaymentOrder:
    return PaymentOrder(
        from_account_id=asked.from_account,
        to_account_id=asked.to_account,
        amount=asked.amount,
        scheduled_time=due_at,
        description=asked.description,
        funding="hold" if asked.hold else "at_execution",
        on_insufficient="fail" if asked.retry_until is None else RetryUntil(asked.retry_until),
        on_broken=asked.on_broken,
    )
