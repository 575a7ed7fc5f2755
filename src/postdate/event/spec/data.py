"""The fields of the data of events: the kind of value of each, and what it says."""

from collections.abc import Mapping
from typing import Final

import msgspec


class EventField(msgspec.Struct, frozen=True):
    """The kinds of value that a field may have, and its meaning."""

    kinds: tuple[str, ...]
    meaning: str


def _field(kinds: str, meaning: str) -> EventField:
    return EventField(tuple(kinds.split(" or ")), meaning)


EVENT_FIELDS: Final[Mapping[str, EventField]] = {
    "account_id": _field("text", "The account."),
    "accounts": _field("list or null", "The accounts to which a key or role is limited."),
    "after": _field(
        "instant or object",
        "What holds from now on: an instant, or balance, held and version of an account.",
    ),
    "amount": _field(
        "whole number",
        "In the minor unit of the account's currency; below zero for a debit by an adjustment.",
    ),
    "attempt": _field("whole number", "The number of the attempt, from 1."),
    "available": _field("whole number or null", "What the payer is expected to have then."),
    "balance": _field("whole number", "The balance of the account afterwards."),
    "before": _field(
        "instant or object",
        "What held before: an instant, or balance, held and version of an account.",
    ),
    "bulk": _field("true", "The change was made by a filter, with others."),
    "calendar": _field("text", "The name of the calendar."),
    "changes": _field("list", "The operations of the change set, in order."),
    "code": _field("text", "Why: a failure code."),
    "count": _field("whole number", "How many occurrences."),
    "currency": _field("text or null", "The currency of the account."),
    "deadline": _field("instant", "When the job is taken from its worker."),
    "difference": _field("object", "By how much balance, held and version were wrong."),
    "disabled_reason": _field("text or null", "Why the destination is disabled."),
    "due_at": _field("instant", "When it is due."),
    "error": _field("text or null", "What went wrong, for people."),
    "execution_id": _field("text", "The execution of the payment."),
    "expires_at": _field("instant or null", "When the key expires."),
    "fails_at": _field("instant", "When the payment is expected to fail for good."),
    "fields": _field("list", "The fields that were changed."),
    "first": _field("instant", "The first of these occurrences."),
    "floor": _field("whole number", "The least that must stay available."),
    "found_by": _field("text", "`audit` where the background check found it."),
    "from": _field("instant", "The beginning."),
    "from_account_id": _field("text", "The payer."),
    "http_status": _field("whole number", "The status of the receiver's answer."),
    "idempotency_key": _field("text", "The key of the request."),
    "in_doubt": _field("true", "The outcome of an attempt was not known."),
    "job_id": _field("id", "The new job."),
    "jumps": _field("list", "Entries whose balance does not follow from the one before."),
    "key_id": _field("id", "The key; its secret is in no event."),
    "kind": _field("text or null", "The kind of queue: `nats`, `rabbitmq`, `redis` or `kafka`."),
    "lane": _field("text", "The name of the lane."),
    "last": _field("instant", "The last of these occurrences."),
    "max_amount": _field("whole number or null", "The largest payment."),
    "max_running": _field("whole number or null", "How many jobs may run at the same time."),
    "mode": _field("text", "Whether what is due waits (`hold`) or still runs (`drain`)."),
    "name": _field("text", "The name of the destination, setting, role or key."),
    "new_key_id": _field("id", "The key that replaces it."),
    "note": _field("text or null", "What the person wrote."),
    "occurrence_id": _field("id", "The row in the schedule's book."),
    "outcome": _field("text", "The decision: `completed`, `failed` or `retry`."),
    "paused_reason": _field("text or null", "Why the destination is paused."),
    "payment_id": _field("id or null", "The payment."),
    "per_key": _field("object or null", "What holds for each key of the lane."),
    "percent": _field("number", "How far the worker is."),
    "persons": _field("list", "Who asked: another person must approve."),
    "position": _field("whole number", "The sequence number of the next event to send."),
    "rate_per_second": _field("number or null", "How many starts a second."),
    "reason": _field("text or null", "Why, as given with the request."),
    "requested_by": _field("text", "The key of the person who asked."),
    "result": _field(
        "text",
        "How the job stood: `cancelled_before_claim`, `cancelled_after_failure`, "
        "`cancelled_in_doubt` or `stopped_in_flight`.",
    ),
    "retry_at": _field("instant", "When the next attempt is due."),
    "revision": _field("whole number", "How many times it was changed."),
    "runs": _field("whole number", "How many times the schedule has run."),
    "schedule_id": _field("id or null", "The schedule."),
    "scheduled_time": _field("instant", "When the payment is due."),
    "scopes": _field("list", "The scopes of the key or role."),
    "stands_at": _field("instant", "The instant from which the schedule continues."),
    "states": _field("list", "The state of each operation, in order."),
    "stood_at": _field("instant", "The instant that the schedule had reached."),
    "subject": _field("id or null", "The job or payment that it made."),
    "tenant": _field("text", "The name of the tenant."),
    "test": _field("true", "The tenant has a test clock."),
    "to_account_id": _field("text", "The payee."),
    "transfer_id": _field("id", "The transfer that moved the money."),
    "type": _field("text", "`webhook` or `queue`."),
    "types": _field("list", "The types that the subscription asks for."),
    "tzdata": _field("text", "The version of the time zone data."),
    "until": _field("instant or null", "The end; null where it has none."),
    "url": _field("text or null", "The address of a webhook."),
    "value": _field("anything", "The new value; null where the default holds again."),
    "version": _field("whole number", "The version of the account or schedule."),
    "weight": _field("number", "The share of the lane."),
    "width": _field("whole number", "The number of buckets of the lane."),
}
"""Every name means the same in all types."""
