"""Every event type: what happened when an event of it is recorded, and the fields of its data."""

from collections.abc import Mapping
from typing import Final

import msgspec

_TERMS: Final = "account_id floor? max_amount? note currency?"
_DESTINATION: Final = "name type url kind max_running rate_per_second disabled_reason paused_reason"
_STEPS: Final = "changes states"


class EventType(msgspec.Struct, frozen=True):
    """What happened, and the fields of the data: one with `?` is absent where it says nothing."""

    happened: str
    data: str = ""

    @property
    def always(self) -> frozenset[str]:
        """Return the fields that every event of this type has."""
        return frozenset(name for name in self.data.split() if not name.endswith("?"))

    @property
    def possible(self) -> frozenset[str]:
        """Return the fields that an event of this type may have."""
        return frozenset(name.removesuffix("?") for name in self.data.split())


EVENT_TYPES: Final[Mapping[str, EventType]] = {
    "job.accepted": EventType("A job was accepted.", "lane due_at"),
    "job.changed": EventType(
        "A waiting job got another payload, destination or policy.", "fields due_at"
    ),
    "job.rescheduled": EventType("A job got another due time.", "due_at fields? reason? bulk?"),
    "job.replaced": EventType(
        "A request under its unique key gave a waiting job another payload, due time and policy.",
        "due_at revision",
    ),
    "job.debounced": EventType(
        "A request under its unique key moved the due time of a waiting job.", "due_at revision"
    ),
    "job.claimed": EventType("An attempt begins (only with `event.verbose`).", "attempt"),
    "job.progressed": EventType(
        "A worker reported progress (only with `event.verbose`).", "attempt percent? note?"
    ),
    "job.retried": EventType(
        "An attempt failed, and another one follows.",
        "attempt code error? http_status? retry_at",
    ),
    "job.unknown": EventType(
        "An attempt ended without a clear answer; the job waits for a decision.",
        "attempt code error? http_status?",
    ),
    "job.resolved": EventType("A person decided how a job in doubt ended.", "outcome"),
    "job.completed": EventType(
        "A job was completed.", "attempt? http_status? code? error? in_doubt?"
    ),
    "job.failed": EventType(
        "A job failed for good and is a dead letter.",
        "attempt? http_status? code? error? in_doubt?",
    ),
    "job.cancel_requested": EventType(
        "The worker of a running job was asked to stop.", "deadline reason? bulk?"
    ),
    "job.cancelled": EventType("A job was cancelled.", "result reason? bulk?"),
    "job.redriven": EventType("A failed job was started again as a new job.", "job_id reason?"),
    "job.purged": EventType("A dead letter was put away.", "reason?"),
    "job.repaired": EventType("A job that had lost its timer was put back.", "due_at"),
    "payment.scheduled": EventType(
        "A payment was accepted.", "from_account_id to_account_id amount scheduled_time"
    ),
    "payment.approval_requested": EventType("A payment waits for a second person."),
    "payment.approved": EventType("A second person approved a payment.", "note?"),
    "payment.rescheduled": EventType(
        "A payment got another due time.", "scheduled_time before revision"
    ),
    "payment.will_fail": EventType(
        "A payment is expected to fail for lack of money.",
        "due_at fails_at code from_account_id to_account_id amount currency available payment_id "
        "schedule_id",
    ),
    "payment.executing": EventType(
        "A settlement begins (only with `event.verbose`).", "execution_id"
    ),
    "payment.retried": EventType(
        "A settlement failed, and another one follows.", "code error retry_at"
    ),
    "payment.dead_lettered": EventType(
        "A settlement failed for good; the payment waits for a person.", "code error"
    ),
    "payment.completed": EventType(
        "A payment was settled: the money moved.",
        "transfer_id from_account_id to_account_id amount",
    ),
    "payment.failed": EventType(
        "A payment failed: no money moved, and a hold was released.", "code error"
    ),
    "payment.cancelled": EventType(
        "A payment was cancelled, and its hold was released.", "code? error?"
    ),
    "payment.restored": EventType(
        "A cancelled payment was scheduled again by undoing a change set.", "payment_id reason"
    ),
    "payment.repair_requested": EventType(
        "A payment that has lost its timer waits for a second person.", "persons"
    ),
    "payment.repaired": EventType(
        "A payment that had lost its timer was put back.", "scheduled_time requested_by"
    ),
    "account.created": EventType("An account was created.", _TERMS),
    "account.changed": EventType("Limits or note of an account changed.", _TERMS),
    "account.adjusted": EventType(
        "An amount was credited or debited by an adjustment.",
        "account_id transfer_id amount balance version reason idempotency_key",
    ),
    "account.frozen": EventType("An account was frozen.", _TERMS),
    "account.unfrozen": EventType("An account takes payments again.", _TERMS),
    "account.closed": EventType("An account was closed for good.", _TERMS),
    "account.repair_requested": EventType(
        "A repair of an account's balance or hold waits for approval.",
        "account_id before after jumps difference reason persons",
    ),
    "account.repaired": EventType(
        "An account's balance or hold was repaired.",
        "account_id before after jumps difference reason requested_by",
    ),
    "schedule.created": EventType("A schedule was created.", "version"),
    "schedule.changed": EventType(
        "A schedule's rule, template or policies changed.", "version fields"
    ),
    "schedule.paused": EventType("A schedule was paused.", "note"),
    "schedule.resumed": EventType("A schedule was resumed."),
    "schedule.triggered": EventType("A schedule was run out of turn.", "occurrence_id subject"),
    "schedule.backfilled": EventType("Occurrences of the past were run.", "from until count"),
    "schedule.missed": EventType(
        "Occurrences were missed and will not run.", "count first last found_by?"
    ),
    "schedule.refused": EventType("What an occurrence asked for was refused.", "count"),
    "schedule.recomputed": EventType(
        "New time zone data moved the next occurrence.", "tzdata before after"
    ),
    "schedule.put_back": EventType(
        "A schedule that came further than the present continues from it.",
        "count stood_at stands_at first? last?",
    ),
    "schedule.set_aside": EventType(
        "A schedule could not be expanded and waits for a person.", "error"
    ),
    "schedule.ended": EventType("A schedule had its last run.", "runs"),
    "schedule.deleted": EventType("A schedule was deleted."),
    "calendar.changed": EventType("A calendar was created or changed.", "calendar"),
    "calendar.deleted": EventType("A calendar was deleted.", "calendar"),
    "lane.created": EventType(
        "A lane was created before its first job.",
        "lane weight width max_running rate_per_second per_key",
    ),
    "lane.changed": EventType(
        "Weight or limits of a lane changed.",
        "lane weight? width? max_running? rate_per_second? per_key?",
    ),
    "lane.paused": EventType("A lane was paused.", "lane note"),
    "lane.resumed": EventType("A lane was resumed.", "lane"),
    "destination.created": EventType("A destination was created.", _DESTINATION),
    "destination.changed": EventType("A destination changed.", _DESTINATION),
    "destination.rotated": EventType(
        "A signing secret was rotated.", _DESTINATION.replace(" ", "? ") + "?"
    ),
    "destination.disabled": EventType(
        "A destination was disabled: by a person, or because it answered 410.", _DESTINATION
    ),
    "destination.enabled": EventType("A destination was enabled again.", _DESTINATION),
    "destination.paused": EventType("A destination was paused: its jobs wait.", _DESTINATION),
    "destination.resumed": EventType("A destination was resumed.", f"{_DESTINATION} reason"),
    "destination.deleted": EventType("A destination was deleted.", _DESTINATION),
    "subscription.created": EventType("A subscription was created.", "types"),
    "subscription.paused": EventType(
        "A subscription was paused: by a person, or after failing too long.", "note"
    ),
    "subscription.resumed": EventType("A subscription was resumed."),
    "subscription.replayed": EventType(
        "A subscription was set to an earlier or later event.", "position"
    ),
    "subscription.deleted": EventType("A subscription was deleted."),
    "change_set.created": EventType("A change set was drafted.", _STEPS),
    "change_set.applying": EventType("Applying a change set began.", _STEPS),
    "change_set.progressed": EventType("A step of a change set was done.", _STEPS),
    "change_set.applied": EventType("A change set was applied.", _STEPS),
    "change_set.undoing": EventType("Undoing a change set began.", _STEPS),
    "change_set.undone": EventType("A change set was undone.", _STEPS),
    "change_set.broken_off": EventType("Work on a change set stopped before its end.", _STEPS),
    "setting.changed": EventType("A setting of the tenant changed.", "name value"),
    "key.created": EventType(
        "An API key was issued.", "key_id note scopes accounts max_amount expires_at"
    ),
    "key.rotated": EventType("An API key was replaced by a new one.", "key_id new_key_id until"),
    "key.revoked": EventType("An API key was revoked.", "key_id"),
    "tenant.created": EventType("A tenant was created.", "tenant test?"),
    "tenant.killed": EventType("The kill switch was set: nothing moves.", "mode from until note"),
    "tenant.released": EventType("The kill switch was released."),
    "tenant.frozen": EventType("A freeze window was set.", "mode from until note"),
    "tenant.thawed": EventType("A freeze window ended or was lifted."),
    "tenant.disabled": EventType("A tenant was disabled.", "tenant"),
    "tenant.enabled": EventType("A tenant was enabled again.", "tenant"),
    "tenant.role_bound": EventType(
        "A database role was bound to the tenant.", "name scopes accounts max_amount"
    ),
    "tenant.role_unbound": EventType("A database role was unbound from the tenant.", "name"),
    "receipt_key.created": EventType("The server has made a key that signs receipts.", "name"),
}
