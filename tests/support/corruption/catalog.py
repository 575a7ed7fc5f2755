"""What somebody with a superuser's rights may write, and how it must be found.

In a statement `{t}` is the tenant, and `{open}` and the like are ids of the lived-in tenant. Each
row says which finding must be among those named, and about what.
"""

from typing import Final

from support.corruption.broken import ENDED, UNREADABLE
from support.corruption.decision import CHAIN, DEFINITIONS
from support.corruption.forgery import FOLLOW_ENTRIES, FORGED, mint
from support.corruption.tenant import Corruption, of_account
from support.corruption.witness import WITNESSED

MONEY: Final = {
    "an open payment goes to somebody else": Corruption(
        "UPDATE payment SET to_account = 'carol' WHERE payment_id = '{open}'",
        "chain_changed",
        "{open}",
    ),
    "an open payment is larger, with its hold": Corruption(
        "UPDATE payment SET amount = amount + 30 WHERE payment_id = '{open}';"
        f"UPDATE account SET held = held + 30 WHERE {of_account('alice')}",
        "chain_changed",
        "{open}",
    ),
    "an open payment is paid by somebody else, with its hold": Corruption(
        "UPDATE payment SET from_account = 'eve' WHERE payment_id = '{open}';"
        f"UPDATE account SET held = held - 70 WHERE {of_account('alice')};"
        f"UPDATE account SET held = held + 70 WHERE {of_account('eve')}",
        "chain_changed",
        "{open}",
    ),
    "an open payment is earlier, with its timer": Corruption(
        "UPDATE payment SET due_at = due_at - interval '1 day' WHERE payment_id = '{open}';"
        "UPDATE timer SET due_at = due_at - interval '1 day' WHERE subject = '{open}'",
        "chain_changed",
        "{open}",
    ),
    "an open payment is gone with all that belongs to it": Corruption(
        "DELETE FROM payment WHERE payment_id = '{open}';"
        "DELETE FROM timer WHERE subject = '{open}';"
        "DELETE FROM idempotency WHERE subject = '{open}';"
        f"UPDATE account SET held = held - 70 WHERE {of_account('alice')}",
        "chain_missing",
        "{open}",
    ),
    "an open payment holds nothing any more": Corruption(
        "UPDATE payment SET hold = false WHERE payment_id = '{open}';"
        f"UPDATE account SET held = held - 70 WHERE {of_account('alice')}",
        "chain_changed",
        "{open}",
    ),
    "what an open payment is for": Corruption(
        "UPDATE payment SET description = 'rent' WHERE payment_id = '{open}'",
        "chain_changed",
        "{open}",
    ),
    "how long an open payment waits for money": Corruption(
        "UPDATE payment SET retry_until = due_at + interval '1 year' "
        "WHERE payment_id = '{at_execution}'",
        "chain_changed",
        "{at_execution}",
    ),
    "a payment is invented": Corruption(
        "INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account, "
        "amount, due_at, hold) SELECT bucket, to_bucket, tenant_id, '{open_ffff}', from_account, "
        "to_account, amount, due_at, false FROM payment WHERE payment_id = '{open}'; "
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) SELECT bucket, tenant_id, "
        "0, '{open_ffff}', due_at FROM timer WHERE subject = '{open}'",
        "chain_unsealed",
        "{open_ffff}",
    ),
    "a completed payment is rewritten with its transfer": Corruption(
        "UPDATE payment SET to_account = 'carol' WHERE payment_id = '{settled}';"
        "UPDATE transfer SET to_account = 'carol', to_version = 99 "
        "WHERE payment_id = '{settled}'",
        "chain_changed",
        "{settled}",
    ),
    "a completed payment is gone, its transfer is kept": Corruption(
        "DELETE FROM payment WHERE payment_id = '{settled}'",
        "outcome_has_subject",
        "{settled}",
    ),
    "a completed payment and its outcome are gone, its transfer is kept": Corruption(
        "DELETE FROM payment WHERE payment_id = '{settled}';"
        "DELETE FROM outcome WHERE subject = '{settled}'",
        "transfer_has_payment",
        "{settled}",
    ),
    "an open payment is cancelled by hand": Corruption(
        "INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at) "
        "SELECT bucket, tenant_id, subject, 0, 'CANCELLED', due_at, clock() FROM timer "
        "WHERE subject = '{open}'; DELETE FROM timer WHERE subject = '{open}';"
        f"UPDATE account SET held = held - 70 WHERE {of_account('alice')}",
        "events_are_legal",
        "{open}",
    ),
    "a cancelled payment is revived": Corruption(
        "DELETE FROM outcome WHERE subject = '{cancelled}'; INSERT INTO timer (bucket, tenant_id, "
        "lane_id, subject, due_at) SELECT bucket, tenant_id, 0, payment_id, due_at FROM payment "
        "WHERE payment_id = '{cancelled}';"
        f"UPDATE account SET held = held + 40 WHERE {of_account('alice')}",
        "events_are_legal",
        "{cancelled}",
    ),
    "a failed payment counts as cancelled": Corruption(
        "UPDATE outcome SET status = 'CANCELLED' WHERE subject = '{failed}'",
        "events_are_legal",
        "{failed}",
    ),
    "a payment has ended and is still open": Corruption(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) SELECT bucket, tenant_id, "
        "0, payment_id, clock() FROM payment WHERE payment_id = '{failed}'",
        "payment_is_open_or_ended",
        "{failed}",
    ),
    "an outcome is gone": Corruption(
        "DELETE FROM outcome WHERE subject = '{failed}'", "payment_is_open_or_ended", "{failed}"
    ),
    "an outcome names another transfer": Corruption(
        "UPDATE outcome SET transfer_id = gen_random_uuid() WHERE subject = '{settled}'",
        "payment_moved_once",
        "{settled}",
    ),
    "the time of an outcome": Corruption(
        "UPDATE outcome SET finished_at = finished_at - interval '1 hour' "
        "WHERE subject = '{settled}'",
        "transfer_has_payment",
        "{settled}",
    ),
    "the times of an outcome and of its transfer": Corruption(
        "UPDATE outcome SET finished_at = finished_at - interval '1 hour' "
        "WHERE subject = '{settled}';"
        "UPDATE transfer SET created_at = created_at - interval '1 hour' "
        "WHERE payment_id = '{settled}'",
        "chain_changed",
        "{transfer}",
    ),
    "when a payment was first due": Corruption(
        "UPDATE outcome SET due_at = due_at - interval '1 hour' WHERE subject = '{settled}'",
        "chain_changed",
        "{transfer}",
    ),
    "why a payment failed": Corruption(
        "UPDATE outcome SET code = 'account_frozen' WHERE subject = '{failed}'",
        "outcome_is_as_recorded",
        "{failed}",
    ),
    "when a payment was cancelled": Corruption(
        "UPDATE outcome SET finished_at = finished_at + interval '1 hour' "
        "WHERE subject = '{cancelled}'",
        "outcome_is_as_recorded",
        "{cancelled}",
    ),
    "the time of a transfer": Corruption(
        "UPDATE transfer SET created_at = created_at - interval '1 hour' "
        "WHERE payment_id = '{settled}'",
        "transfer_has_payment",
        "{settled}",
    ),
    "the amount of a transfer": Corruption(
        "UPDATE transfer SET amount = amount + 1 WHERE payment_id = '{settled_too}'",
        "payment_moved_once",
        "{settled_too}",
    ),
    "the payee's balance after a transfer": Corruption(
        "UPDATE transfer SET to_balance = to_balance + 1 WHERE payment_id = '{settled_too}'",
        "versions_have_no_gaps",
        "carol",
    ),
    "the payer's balance after a transfer": Corruption(
        "UPDATE transfer SET from_balance = from_balance + 1 WHERE payment_id = '{settled}'",
        "versions_have_no_gaps",
        "alice",
    ),
    "a transfer to another account": Corruption(
        "UPDATE transfer SET to_account = 'dora' WHERE payment_id = '{settled_too}'",
        "transfer_has_payment",
        "{settled_too}",
    ),
    "a transfer is gone": Corruption(
        "DELETE FROM transfer WHERE payment_id = '{settled_too}'",
        "payment_moved_once",
        "{settled_too}",
    ),
    "a payment is settled twice, consistently": Corruption(
        "INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_account, "
        "from_balance, from_version, to_account, to_balance, to_version, payment_id, created_at) "
        "SELECT t.bucket, t.to_bucket, t.tenant_id, "
        "overlay(t.transfer_id::text placing 'ffff' from 33)::uuid, t.amount, t.from_account, "
        "payer.balance - t.amount, payer.version + 1, t.to_account, payee.balance + t.amount, "
        "payee.version + 1, t.payment_id, t.created_at FROM transfer t "
        "JOIN account payer ON payer.tenant_id = {t} AND payer.account_id = t.from_account "
        "JOIN account payee ON payee.tenant_id = {t} AND payee.account_id = t.to_account "
        "WHERE t.payment_id = '{settled_too}';" + FOLLOW_ENTRIES,
        "transfer_has_payment",
        "{settled_too}",
    ),
    "a million is minted, consistently": Corruption(
        mint("carol", "overlay('{settled}' placing 'ffff' from 33)::uuid", "opening"),
        "adjustment_is_as_recorded",
        "carol",
    ),
    "the reason of an adjustment": Corruption(
        "UPDATE transfer SET reason = 'gift' WHERE tenant_id = {t} AND to_account = 'eve'",
        "adjustment_is_as_recorded",
        "eve",
    ),
    "an adjustment is gone with its account's balance": Corruption(
        "DELETE FROM transfer WHERE tenant_id = {t} AND to_account = 'eve';"
        f"UPDATE account SET balance = 0, version = 0 WHERE {of_account('eve')}",
        "adjustment_is_as_recorded",
        "eve",
    ),
    "a balance": Corruption(
        f"UPDATE account SET balance = balance + 5 WHERE {of_account('bob')}",
        "balance_is_its_entries",
        "bob",
        in_rounds=("balance_follows_entries", "bob"),
    ),
    "two balances whose sum stays": Corruption(
        f"UPDATE account SET balance = balance - 5 WHERE {of_account('bob')};"
        f"UPDATE account SET balance = balance + 5 WHERE {of_account('carol')}",
        "balance_is_its_entries",
        "bob",
        in_rounds=("balance_follows_entries", "bob"),
    ),
    "a version": Corruption(
        f"UPDATE account SET version = version + 1 WHERE {of_account('carol')}",
        "balance_is_its_entries",
        "carol",
        in_rounds=("balance_follows_entries", "carol"),
    ),
    "an open payment goes to another currency": Corruption(
        "UPDATE payment SET to_account = 'fay' WHERE payment_id = '{open}'",
        "payment_keeps_currency",
        "{open}",
    ),
    "the payee of a settled payment has another currency": Corruption(
        f"UPDATE account SET currency = 'USD' WHERE {of_account('carol')}",
        "payment_keeps_currency",
        "{settled_too}",
    ),
    "a hold is forgotten": Corruption(
        f"UPDATE account SET held = 0 WHERE {of_account('alice')}",
        "held_is_open_payments",
        "alice",
    ),
    "a hold is invented": Corruption(
        f"UPDATE account SET held = 10 WHERE {of_account('bob')}", "held_is_open_payments", "bob"
    ),
    "a transfer moves to another tenant": Corruption(
        "UPDATE transfer SET tenant_id = 0 WHERE payment_id = '{settled_too}'",
        "payment_moved_once",
        "{settled_too}",
    ),
}

TERMS: Final = {
    "a timer is earlier": Corruption(
        "UPDATE timer SET due_at = clock() WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "a timer is later": Corruption(
        "UPDATE timer SET due_at = due_at + interval '1 day' WHERE subject = '{moved}'",
        "payment_timer_follows_terms",
        "{moved}",
    ),
    "a timer is set aside for ever": Corruption(
        "UPDATE timer SET due_at = 'infinity' WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "a timer goes back to before a reschedule": Corruption(
        "UPDATE timer t SET due_at = p.due_at, revision = 0 FROM payment p "
        "WHERE p.payment_id = '{moved}' AND t.subject = p.payment_id",
        "payment_timer_follows_terms",
        "{moved}",
    ),
    "a timer lies in the lane of approvals": Corruption(
        "UPDATE timer SET lane_id = 3 WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "a timer lies in the lane of halted tenants": Corruption(
        "UPDATE timer SET lane_id = 4 WHERE subject = '{open}'",
        "payment_timer_follows_terms",
        "{open}",
    ),
    "an unapproved payment lies in the open lane": Corruption(
        "UPDATE timer SET lane_id = 0 WHERE subject = '{waiting}'",
        "payment_timer_follows_terms",
        "{waiting}",
    ),
    "a timer is gone": Corruption(
        "DELETE FROM timer WHERE subject = '{at_execution}'",
        "payment_is_open_or_ended",
        "{at_execution}",
    ),
    "a timer belongs to another tenant": Corruption(
        "UPDATE timer SET tenant_id = 0 WHERE subject = '{open}'",
        "held_is_open_payments",
        "alice",
    ),
    "an approval is gone, and the payment open": Corruption(
        "DELETE FROM payment_approval WHERE payment_id = '{waiting}';"
        "UPDATE timer SET lane_id = 0 WHERE subject = '{waiting}'",
        "approval_is_as_sealed",
        "{waiting}",
    ),
    "an approval that was given is gone": Corruption(
        "DELETE FROM payment_approval WHERE payment_id = '{approved}'",
        "approval_is_as_sealed",
        "{approved}",
    ),
    "an approval is forged": Corruption(
        "UPDATE payment_approval SET decision = 'approved', decided_by = 'x', "
        "decided_persons = '{{x}}', decided_at = clock() WHERE payment_id = '{waiting}';"
        "UPDATE timer SET lane_id = 0 WHERE subject = '{waiting}'",
        "approval_is_as_sealed",
        "{waiting}",
    ),
    "an approval was given by somebody else": Corruption(
        "UPDATE payment_approval SET decided_by = 'x' WHERE payment_id = '{approved}'",
        "approval_is_as_sealed",
        "{approved}",
    ),
    "a refusal counts as withdrawn": Corruption(
        "UPDATE payment_approval SET decision = 'withdrawn' WHERE payment_id = '{refused}'",
        "approval_is_as_sealed",
        "{refused}",
    ),
    "an approval expires later": Corruption(
        "UPDATE payment_approval SET expires_at = expires_at + interval '9 days' "
        "WHERE payment_id = '{waiting}'",
        "approval_is_as_sealed",
        "{waiting}",
    ),
    "an approval is asked for where none was": Corruption(
        "INSERT INTO payment_approval (bucket, tenant_id, payment_id, requested_by, "
        "requested_persons, expires_at) SELECT bucket, tenant_id, payment_id, 'x', '{{x}}', "
        "clock() FROM payment WHERE payment_id = '{open}';"
        "UPDATE timer SET lane_id = 3 WHERE subject = '{open}'",
        "approval_is_as_sealed",
        "{open}",
    ),
    "what a job delivers": Corruption(
        "UPDATE job SET payload = 'x', payload_ref = NULL WHERE job_id = '{job_open}'",
        "chain_changed",
        "{job_open}",
    ),
    "where a job goes": Corruption(
        "UPDATE job SET destination = '{{\"type\": \"webhook\"}}' WHERE job_id = '{job_open}'",
        "chain_changed",
        "{job_open}",
    ),
    "a job's timer is earlier": Corruption(
        "UPDATE timer SET due_at = clock() WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a job's timer lies in another lane": Corruption(
        "UPDATE timer SET lane_id = (SELECT max(lane_id) FROM lane) WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a job's timer forgets a change": Corruption(
        "UPDATE timer SET revision = 0 WHERE subject = '{job_moved}'",
        "job_timer_follows_terms",
        "{job_moved}",
    ),
    "a job has fewer attempts left": Corruption(
        "UPDATE timer SET attempt = 9 WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a job's timer is gone": Corruption(
        "DELETE FROM timer WHERE subject = '{job_open}'", "job_is_open_or_ended", "{job_open}"
    ),
    "a finished job is open again": Corruption(
        "INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) SELECT bucket, tenant_id, "
        "lane_id, job_id, clock() FROM job WHERE job_id = '{job_done}'",
        "job_is_open_or_ended",
        "{job_done}",
    ),
    "an open job is gone": Corruption(
        "DELETE FROM job WHERE job_id = '{job_open}'", "timer_has_job", "{job_open}"
    ),
    "a finished job is gone, its outcome is kept": Corruption(
        "DELETE FROM job WHERE job_id = '{job_done}'", "outcome_has_subject", "{job_done}"
    ),
}

TABLE: Final = MONEY | TERMS | DEFINITIONS | CHAIN | FORGED | WITNESSED | ENDED | UNREADABLE
