-- Money ahead: what is open, and the accounts that it touches.

-- name: money_open
-- Instants in microseconds since the epoch; how long a payment waits for its money, in the same.
-- A float holds them whole for centuries.
SELECT known, (date_part('epoch', due_at) * 1e6)::bigint, payment_id, from_account,
       to_account, amount, hold, (date_part('epoch', retry_until - due_at) * 1e6)::bigint,
       schedule_id
  FROM open_payments_ahead($1, $2, $3, $4)

-- name: money_accounts
SELECT a.account_id, a.balance, a.held, a.floor, a.frozen_at IS NOT NULL, a.closed_at IS NOT NULL,
       a.currency
  FROM unnest($2::smallint[], $3::text[]) AS wanted (bucket, account_id)
  JOIN account a ON a.bucket = wanted.bucket AND a.tenant_id = $1
       AND a.account_id = wanted.account_id

-- name: money_sums
SELECT own.currency, count(*)::integer, sum(own.balance)::bigint, sum(own.held)::bigint
  FROM outbox_lock buckets
 CROSS JOIN LATERAL (
       SELECT a.currency, a.balance, a.held FROM account a
        WHERE a.bucket = buckets.bucket AND a.tenant_id = $1 AND a.floor IS NOT NULL
        LIMIT $2) AS own
 GROUP BY own.currency ORDER BY own.currency NULLS FIRST
