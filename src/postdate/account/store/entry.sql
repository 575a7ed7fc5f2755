-- Entries: the legs of transfers, each with the balance and version of its account after it.

-- name: entry_insert
INSERT INTO entry (bucket, tenant_id, account_id, version, transfer_id, amount, balance, type,
                   payment_id, reason)
SELECT * FROM unnest($1::smallint[], $2::integer[], $3::text[], $4::bigint[], $5::uuid[],
                     $6::bigint[], $7::bigint[], $8::text[], $9::uuid[], $10::text[])

-- name: entry_now
-- Where an account stands: in the place of `entry_at` where no instant is given.
SELECT a.version, a.balance, a.currency FROM account a
 WHERE a.bucket = $1 AND a.tenant_id = $2 AND a.account_id = $3 AND $4::timestamptz IS NULL

-- name: entry_until
-- The entries of a statement, from where the account stood or from an earlier version back.
SELECT e.account_id, e.version, e.transfer_id, e.amount, e.balance, e.type, e.payment_id, e.reason,
       e.created_at
  FROM entry e
 WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.account_id = $3
   AND e.version <= least($5, stood.version)
 ORDER BY e.version DESC LIMIT $6

-- name: entry_between
-- The entries of a statement, the oldest first: those after one version, up to another.
SELECT e.account_id, e.version, e.transfer_id, e.amount, e.balance, e.type, e.payment_id, e.reason,
       e.created_at
  FROM entry e
 WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.account_id = $3
   AND e.version > $4 AND e.version <= $5
 ORDER BY e.version

-- name: entry_of_transfer
-- An account's entry of a transfer, up to a version: one settlement writes at most a thousand, so
-- it lies among the last of them.
SELECT account_id, version, transfer_id, amount, balance, type, payment_id, reason, created_at
  FROM entry
 WHERE bucket = $1 AND tenant_id = $2 AND account_id = $3
   AND version BETWEEN $4 - 2000 AND $4 AND transfer_id = $5

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
           SELECT (s.low + s.high + 1) / 2 AS middle,
                  coalesce((SELECT e.created_at <= $4 FROM entry e
                             WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.account_id = $3
                               AND e.version = (s.low + s.high + 1) / 2), true) AS before) AS step
     WHERE s.low < s.high)
SELECT found.low AS version,
       coalesce((SELECT e.balance - e.amount FROM entry e
                  WHERE e.bucket = $1 AND e.tenant_id = $2 AND e.account_id = $3
                    AND e.version = found.low + 1), a.balance) AS balance,
       a.currency
  FROM search found
  JOIN account a ON a.bucket = $1 AND a.tenant_id = $2 AND a.account_id = $3
 WHERE found.low = found.high
