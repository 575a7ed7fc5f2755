"""Corruptions of what was not witnessed once: revisions, attempts, keys, timers, functions."""

from typing import Final

from support.corruption.tenant import Corruption

WITNESSED: Final = {
    "what a changed job delivers": Corruption(
        "UPDATE job_revision SET payload = 'x', payload_revision = revision "
        "WHERE job_id = '{job_moved}'",
        "revision_is_as_sealed",
        "{job_moved}",
    ),
    "when a changed job is due, with its timer": Corruption(
        "UPDATE job_revision SET due_at = clock(), effective_at = clock() "
        "WHERE job_id = '{job_moved}';"
        "UPDATE timer SET due_at = clock() WHERE subject = '{job_moved}'",
        "revision_is_as_sealed",
        "{job_moved}",
    ),
    "a change of a job is invented": Corruption(
        "INSERT INTO job_revision (bucket, tenant_id, job_id, revision, due_at, effective_at, "
        "payload_revision, lane_id) "
        "SELECT bucket, tenant_id, job_id, 1, clock(), clock(), 0, lane_id FROM job "
        "WHERE job_id = '{job_open}';"
        "UPDATE timer SET due_at = clock(), revision = 1 WHERE subject = '{job_open}'",
        "revision_is_as_sealed",
        "{job_open}",
    ),
    "a change of a job is gone": Corruption(
        "DELETE FROM job_revision WHERE job_id = '{job_moved}';"
        "UPDATE timer t SET due_at = j.effective_at, revision = 0 FROM job j "
        "WHERE j.job_id = '{job_moved}' AND t.subject = j.job_id",
        "revision_is_as_sealed",
        "{job_moved}",
    ),
    "when a job is tried again, with its timer": Corruption(
        "UPDATE attempt SET retry_at = clock() WHERE subject = '{job_retried}';"
        "UPDATE timer SET due_at = clock() WHERE subject = '{job_retried}'",
        "attempt_is_as_sealed",
        "{job_retried}",
    ),
    "why a job is tried again": Corruption(
        "UPDATE attempt SET code = 'x' WHERE subject = '{job_retried}'",
        "attempt_is_as_sealed",
        "{job_retried}",
    ),
    "a job is tried again too early": Corruption(
        "UPDATE timer SET due_at = due_at - interval '1 minute' WHERE subject = '{job_retried}'",
        "job_timer_follows_terms",
        "{job_retried}",
    ),
    "when a payment is tried again, with its timer": Corruption(
        "UPDATE attempt SET retry_at = retry_at + interval '1 hour' "
        "WHERE subject = '{retried}';"
        "UPDATE timer SET due_at = due_at + interval '1 hour' WHERE subject = '{retried}'",
        "attempt_is_as_sealed",
        "{retried}",
    ),
    "a payment was tried once less": Corruption(
        "UPDATE timer SET token = 0 WHERE subject = '{retried}'",
        "payment_timer_follows_terms",
        "{retried}",
    ),
    "a payment is claimed until 2090": Corruption(
        "UPDATE timer SET claimed_at = '2090-01-01', token = 1 WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "a payment's timer counts attempts": Corruption(
        "UPDATE timer SET attempt = 3 WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "a job waits for ever": Corruption(
        "UPDATE timer SET due_at = 'infinity' WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a job waits until 2090": Corruption(
        "UPDATE timer SET due_at = '2090-01-01' WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a job is claimed until 2090": Corruption(
        "UPDATE timer SET claimed_at = '2090-01-01', token = 1 WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a schedule's timer without a schedule": Corruption(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) SELECT bucket, "
        "tenant_id, 1, '{open_ffff}', clock() FROM timer WHERE subject = '{open}'",
        "timer_has_subject",
        "{open_ffff}",
    ),
    "a subscription's timer without a subscription": Corruption(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) SELECT bucket, "
        "tenant_id, 2, '{open_ffff}', clock() FROM timer WHERE subject = '{open}'",
        "timer_has_subject",
        "{open_ffff}",
    ),
    "a schedule is ended by hand": Corruption(
        "UPDATE schedule SET ended_at = clock() WHERE schedule_id = '{schedule}';"
        "DELETE FROM timer WHERE subject = '{schedule}'",
        "schedule_is_as_sealed",
        "{schedule}",
    ),
    "when a row of a schedule's book was due": Corruption(
        "UPDATE occurrence SET due_at = due_at + interval '1 hour' "
        "WHERE schedule_id = '{schedule}'",
        "occurrence_has_subject",
        "{schedule}",
    ),
    "for when a row of a schedule's book was scheduled": Corruption(
        "UPDATE occurrence SET scheduled_for = scheduled_for - interval '1 hour' "
        "WHERE schedule_id = '{schedule}' AND cause = 'trigger'",
        "occurrence_has_subject",
        "{schedule}",
    ),
    "a client's key has another name": Corruption(
        "UPDATE idempotency SET key = '{settled_too}' WHERE subject = '{settled}'",
        "payment_has_idempotency_key",
        "{settled}",
    ),
    "a client's key of a job is gone": Corruption(
        "DELETE FROM idempotency WHERE subject = '{job_open}'",
        "job_has_idempotency_key",
        "{job_open}",
    ),
    "a client's key of a job names another": Corruption(
        "UPDATE idempotency SET subject = '{job_moved}' WHERE subject = '{job_open}'",
        "job_has_idempotency_key",
        "{job_open}",
    ),
    "the row of a unique key is gone": Corruption(
        "DELETE FROM job_unique WHERE job_id = '{job_unique}'",
        "waiting_job_holds_its_unique_key",
        "{job_unique}",
    ),
    "a unique key names another job": Corruption(
        "UPDATE job_unique SET job_id = '{job_open}' WHERE job_id = '{job_unique}'",
        "waiting_job_holds_its_unique_key",
        "{job_unique}",
    ),
    "under which unique key a job waits": Corruption(
        "UPDATE job SET unique_by = NULL WHERE job_id = '{job_unique}'",
        "chain_changed",
        "{job_unique}",
    ),
    "a client's key of an adjustment is gone": Corruption(
        "DELETE FROM idempotency WHERE tenant_id = {t} AND scope = 4 AND subject = '{adjustment}'",
        "adjustment_has_idempotency_key",
        "{adjustment}",
    ),
    "a client's key answers with a refusal": Corruption(
        "UPDATE idempotency SET kept = convert_to('{{}}', 'UTF8') WHERE subject = '{settled}'",
        "idempotency_key_names_its_subject",
        "{key_of_settled}",
    ),
    "which key a payment was asked for under": Corruption(
        "UPDATE payment SET idempotency_key = NULL WHERE payment_id = '{open}';"
        "DELETE FROM idempotency WHERE subject = '{open}'",
        "chain_changed",
        "{open}",
    ),
    "an open payment pays back another": Corruption(
        "UPDATE payment SET refund_of = '{settled}' WHERE payment_id = '{open}'",
        "refund_is_of_what_was_paid",
        "{open}",
    ),
    "when a seal was made": Corruption(
        "UPDATE seal SET sealed_at = sealed_at + interval '1 hour' "
        "WHERE tenant_id = {t} AND position = 1",
        "chain_changed",
        "1",
        alone=True,
    ),
    "what a calendar once said": Corruption(
        "UPDATE calendar_version SET holidays = '{{}}' WHERE tenant_id = {t} AND name = 'bank'",
        "calendar_is_as_sealed",
        "bank",
    ),
    "a calendar is invented": Corruption(
        "INSERT INTO calendar (tenant_id, name, weekend, holidays) "
        "VALUES ({t}, 'made_up', '{{}}', '{{}}')",
        "calendar_is_as_sealed",
        "made_up",
    ),
    "over how many buckets a lane goes": Corruption(
        "UPDATE lane SET width = 64 WHERE tenant_id = {t} AND name = 'mail'",
        "lane_is_as_sealed",
        "mail",
    ),
    "a digest covers nothing": Corruption(
        "CREATE OR REPLACE FUNCTION payment_digest(p payment) RETURNS bytea LANGUAGE sql STABLE "
        "AS 'SELECT sha256(uuid_send(p.payment_id))'",
        "function_is_as_shipped",
        "payment_digest",
        alone=True,
    ),
    "facts are guarded no more": Corruption(
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN NEW; END'",
        "function_is_as_shipped",
        "refuse_change",
        alone=True,
    ),
    "old weeks count as detached": Corruption(
        "INSERT INTO history (partition, parent, from_id, to_id) VALUES ('seal_20200106', 'seal', "
        "uuid_floor('2020-01-06'), uuid_floor(clock() - interval '15 days'));"
        "INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account, "
        "amount, due_at, hold, created_at) SELECT bucket, to_bucket, tenant_id, '{old}', "
        "from_account, to_account, amount, due_at, false, clock() - interval '20 days' "
        "FROM payment WHERE payment_id = '{open}'",
        "chain_unsealed",
        "{old}",
        alone=True,
    ),
    "an outcome ends in eternity": Corruption(
        "UPDATE outcome SET finished_at = 'infinity' WHERE subject = '{job_done}'",
        "chain_unsealed",
        "{job_done}",
    ),
}
