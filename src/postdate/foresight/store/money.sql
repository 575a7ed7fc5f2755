-- Money ahead: what is open, and the accounts that it touches.

-- name: money_timers
SELECT cut_at, timers FROM payment_timers_ahead($1, $2, $3, $4)

-- name: money_terms
SELECT payment_id, from_account, to_account, amount, hold, retry_until, schedule_id
  FROM payment_terms($1, $2, $3)

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
