"""Corruptions that end what is open, and values on which a proof itself might break."""

from typing import Final

from support.corruption.tenant import Corruption

ENDED: Final = {
    "an open job is cancelled by hand": Corruption(
        "INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at) "
        "SELECT bucket, tenant_id, subject, 0, 'CANCELLED', due_at, clock() FROM timer "
        "WHERE subject = '{job_open}'; DELETE FROM timer WHERE subject = '{job_open}'",
        "outcome_is_as_recorded",
        "{job_open}",
    ),
    "a cancelled job is revived": Corruption(
        "DELETE FROM outcome WHERE subject = '{job_cancelled}'; INSERT INTO timer (bucket, "
        "tenant_id, lane_id, subject, due_at) SELECT bucket, tenant_id, lane_id, job_id, "
        "effective_at FROM job WHERE job_id = '{job_cancelled}'",
        "outcome_is_as_recorded",
        "{job_cancelled}",
    ),
    "when a job was cancelled": Corruption(
        "UPDATE outcome SET finished_at = finished_at - interval '1 day' "
        "WHERE subject = '{job_cancelled}'",
        "outcome_is_as_recorded",
        "{job_cancelled}",
    ),
    "a cancelled job counts as failed": Corruption(
        "UPDATE outcome SET status = 'FAILED' WHERE subject = '{job_cancelled}'",
        "outcome_is_as_recorded",
        "{job_cancelled}",
    ),
    "a job in doubt was completed": Corruption(
        "UPDATE outcome SET status = 'COMPLETED' WHERE subject = '{doubt_failed}'",
        "outcome_is_as_recorded",
        "{doubt_failed}",
    ),
    "an open job counts as resolved": Corruption(
        "INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at, "
        "code) SELECT bucket, tenant_id, subject, 0, 'COMPLETED', due_at, clock(), 'resolved' "
        "FROM timer WHERE subject = '{job_moved}'; DELETE FROM timer WHERE subject = '{job_moved}'",
        "outcome_is_as_recorded",
        "{job_moved}",
    ),
    "a job that is tried again waits for a person": Corruption(
        "UPDATE timer SET due_at = 'infinity' WHERE subject = '{job_retried}'",
        "job_timer_follows_terms",
        "{job_retried}",
    ),
    "a payment that is tried again waits for a person": Corruption(
        "UPDATE timer SET due_at = 'infinity', ready_at = due_at, claimed_at = clock() "
        "WHERE subject = '{retried}'",
        "payment_timer_follows_terms",
        "{retried}",
    ),
}

UNREADABLE: Final = {
    "a payment's key keeps no text": Corruption(
        "UPDATE idempotency SET kept = '\\xff' WHERE subject = '{settled}'",
        "idempotency_key_names_its_subject",
        "{key_of_settled}",
    ),
    "an adjustment's key keeps no text": Corruption(
        "UPDATE idempotency SET kept = '\\xff' WHERE tenant_id = {t} AND scope = 4",
        "values_are_readable",
        "idempotency_key_names_its_subject",
        alone=True,
    ),
    "an event tells of an amount that is no number": Corruption(
        'UPDATE event SET data = data || \'{{"amount": "x"}}\' '
        "WHERE tenant_id = {t} AND type = 'account.adjusted'",
        "values_are_readable",
        "adjustment_is_as_recorded",
        alone=True,
    ),
    "a balance is too large to be added to": Corruption(
        "UPDATE transfer SET to_balance = 9223372036854775807 WHERE payment_id = '{settled_too}'",
        "versions_have_no_gaps",
        "carol",
        alone=True,
    ),
    "an amount is too large to be added": Corruption(
        "UPDATE transfer SET amount = 9223372036854775807 WHERE payment_id = '{settled_too}'",
        "transfer_has_payment",
        "{settled_too}",
        alone=True,
    ),
    "a schedule stands at eternity": Corruption(
        "UPDATE schedule SET handled = 'infinity' WHERE schedule_id = '{schedule}'",
        "values_are_readable",
        "schedule_follows_rule",
        alone=True,
    ),
    "a seal has a type of nothing": Corruption(
        "UPDATE seal SET types[1] = NULL WHERE tenant_id = {t} AND position = 1",
        "chain_changed",
        "1",
        alone=True,
    ),
    "a seal was made in the year 20000": Corruption(
        "UPDATE seal SET sealed_at = '20000-01-01' WHERE tenant_id = {t} AND position = 1",
        "chain_changed",
        "1",
        alone=True,
    ),
}
