"""Corruptions by somebody who has read how the proofs work, and forges their witnesses."""

from typing import Final

from support.corruption.tenant import Corruption

FORGE: Final = "INSERT INTO event (bucket, tenant_id, subject, event_id, type, data, state) "

FOLLOW_ENTRIES: Final = (
    "UPDATE account a SET balance = last.balance, version = last.version FROM "
    "(SELECT DISTINCT ON (account_id) account_id, balance, version FROM entry "
    "WHERE tenant_id = {t} ORDER BY account_id, version DESC) AS last "
    "WHERE a.tenant_id = {t} AND a.account_id = last.account_id;"
)
"""Makes every account what its last entry says."""


def mint(account: str, transfer: str, reason: str) -> str:
    """Write a million to an account, from the issuer, and let both balances follow."""
    return (
        "INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_account, "
        "from_balance, from_version, to_account, to_balance, to_version, reason) "
        f"SELECT i.bucket, a.bucket, a.tenant_id, {transfer}, 1000000, i.account_id, "
        "i.balance - 1000000, i.version + 1, a.account_id, a.balance + 1000000, a.version + 1, "
        f"'{reason}' FROM account a JOIN account i USING (tenant_id) WHERE a.tenant_id = {{t}} "
        f"AND a.account_id = '{account}' AND i.account_id = 'issuer';" + FOLLOW_ENTRIES
    )


MINT: Final = mint("bob", "'{open_ffff}'", "gift")

JOB_GONE: Final = (
    "DELETE FROM job WHERE job_id = '{job_open}'; DELETE FROM timer WHERE subject = '{job_open}'"
)

FORGED: Final = {
    "a timer lies in a lane of nobody": Corruption(
        "UPDATE timer SET lane_id = 7 WHERE subject = '{at_execution}'",
        "payment_is_open_or_ended",
        "{at_execution}",
    ),
    "why a payment failed, and not only its code": Corruption(
        "UPDATE outcome SET code = 'x' WHERE subject = '{failed}'", "events_are_legal", "{failed}"
    ),
    "on which day a payment was cancelled": Corruption(
        "UPDATE outcome SET finished_at = finished_at - interval '1 day' "
        "WHERE subject = '{cancelled}'",
        "events_are_legal",
        "{cancelled}",
    ),
    "a cancelled job counts as completed": Corruption(
        "UPDATE outcome SET status = 'COMPLETED' WHERE subject = '{job_cancelled}'",
        "job_is_open_or_ended",
        "{job_cancelled}",
    ),
    "a job is claimed before its time": Corruption(
        "UPDATE timer SET claimed_at = clock(), token = 1, due_at = clock() "
        "WHERE subject = '{job_open}'",
        "job_timer_follows_terms",
        "{job_open}",
    ),
    "a transfer from another account": Corruption(
        "UPDATE transfer SET from_account = 'dora' WHERE payment_id = '{settled_too}'",
        "transfer_has_payment",
        "{settled_too}",
    ),
    "a transfer is found in another bucket by its payee": Corruption(
        "UPDATE transfer SET to_bucket = (to_bucket + 1) % 64 WHERE payment_id = '{settled_too}'",
        "transfer_has_payment",
        "{settled_too}",
    ),
    "the time of an adjustment": Corruption(
        "UPDATE transfer SET created_at = created_at - interval '1 day' "
        "WHERE tenant_id = {t} AND to_account = 'eve' AND payment_id IS NULL",
        "adjustment_is_as_recorded",
        "eve",
    ),
    "an adjustment is told by an event that took a payment's id": Corruption(
        MINT + FORGE + "SELECT bucket, tenant_id, subject, '{settled}', 'account.adjusted', "
        "jsonb_build_object('account_id', 'bob', 'amount', 1000000, 'reason', 'gift', "
        "'transfer_id', '{open_ffff}'), NULL FROM event WHERE event_id = '{event_of_bob}'",
        "chain_unsealed",
        "{settled}",
    ),
    "a floor is told by an event that took a payment's id": Corruption(
        "UPDATE account SET floor = -9 WHERE tenant_id = {t} AND account_id = 'bob';"
        + FORGE
        + "SELECT bucket, tenant_id, subject, '{settled}', 'account.updated', data, state_now("
        "'account.updated', tenant_id, subject, data) FROM event WHERE event_id = '{event_of_bob}'",
        "chain_unsealed",
        "{settled}",
    ),
    "a job is purged by an event that took a payment's id": Corruption(
        FORGE + "SELECT bucket, tenant_id, job_id, '{settled}', 'job.purged', NULL, NULL FROM job "
        "WHERE job_id = '{job_open}';" + JOB_GONE,
        "chain_unsealed",
        "{settled}",
    ),
    "an event takes the id of a job": Corruption(
        FORGE + "SELECT bucket, tenant_id, job_id, job_id, 'job.accepted', NULL, NULL FROM job "
        "WHERE job_id = '{job_open}'",
        "chain_unsealed",
        "{job_open}",
    ),
    "a job of today counts as pruned": Corruption(
        "INSERT INTO job_pruned VALUES ({t}, clock()) ON CONFLICT (tenant_id) "
        "DO UPDATE SET before = clock();" + JOB_GONE,
        "chain_missing",
        "{job_open}",
        alone=True,
    ),
    "a chain begins at its end": Corruption(
        "INSERT INTO chain_start SELECT bucket, tenant_id, position, hash FROM chain "
        "WHERE tenant_id = {t};"
        "UPDATE payment SET description = 'x' WHERE payment_id = '{open}'",
        "chain_changed",
        "{open}",
        alone=True,
    ),
    "the events of all weeks count as detached": Corruption(
        "INSERT INTO history (partition, parent, from_id, to_id) VALUES ('event_20200106', "
        "'event', uuid_floor('2020-01-06'), uuid_floor('2190-01-01'));" + JOB_GONE,
        "chain_missing",
        "{job_open}",
        alone=True,
    ),
    "the money of all weeks counts as detached": Corruption(
        "INSERT INTO history (partition, parent, from_id, to_id) SELECT week || '_20200106', "
        "week, uuid_floor('2020-01-06'), uuid_floor('2190-01-01') "
        "FROM unnest(ARRAY['payment', 'transfer', 'outcome']) AS week;"
        "DELETE FROM outcome WHERE subject = '{settled}'",
        "payment_is_open_or_ended",
        "{settled}",
        alone=True,
    ),
    "seals hide their decisions": Corruption(
        "UPDATE seal SET decision = false WHERE tenant_id = {t}", "chain_changed", "1", alone=True
    ),
}
