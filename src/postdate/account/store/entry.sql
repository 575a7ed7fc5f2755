-- Entries: the two sides of transfers, each with the balance and version of its account after it.

-- name: entry_now
-- Where an account stands: in the place of `entry_at` where no instant is given.
SELECT a.version, a.balance, a.currency FROM account a
 WHERE a.bucket = $1 AND a.tenant_id = $2 AND a.account_id = $3 AND $4::timestamptz IS NULL

-- name: entry_until
-- The entries of a statement, from where the account stood or from an earlier version back.
SELECT e.account_id, e.version, e.transfer_id, e.amount, e.balance, e.type, e.payment_id, e.reason,
       e.created_at
  FROM account_entries($1, $2, $3, 0, least($5, stood.version), $6) AS e

-- name: entry_between
-- The entries of a statement, the oldest first: those after one version, up to another.
SELECT e.account_id, e.version, e.transfer_id, e.amount, e.balance, e.type, e.payment_id, e.reason,
       e.created_at
  FROM account_entries($1, $2, $3, $4, $5, NULL) AS e
 ORDER BY e.version

-- name: entry_at
-- Versions have no gaps and rise with time: the last one at an instant is found by halving. Entries
-- that have been pruned are older than any that are left. The balance comes from the entry that
-- followed, so that it is known even where the entry itself was pruned.
WITH RECURSIVE search (low, high) AS (
    SELECT 0::bigint, a.version FROM account a
     WHERE a.bucket = $1 AND a.tenant_id = $2 AND a.account_id = $3
    UNION ALL
    SELECT CASE WHEN step.before THEN step.middle ELSE s.low END,
           CASE WHEN step.before THEN s.high ELSE step.middle - 1 END
      FROM search s CROSS JOIN LATERAL (
           SELECT half.middle,
                  coalesce((SELECT e.created_at <= $4
                              FROM account_entries($1, $2, $3, half.middle - 1, half.middle, 1)
                                   AS e), true) AS before
             FROM (SELECT (s.low + s.high + 1) / 2 AS middle) AS half) AS step
     WHERE s.low < s.high)
SELECT found.low AS version,
       coalesce((SELECT e.balance - e.amount
                   FROM account_entries($1, $2, $3, found.low, found.low + 1, 1) AS e), a.balance)
       AS balance,
       a.currency
  FROM search found
  JOIN account a ON a.bucket = $1 AND a.tenant_id = $2 AND a.account_id = $3
 WHERE found.low = found.high
