-- Settlement: find due payments, lock them, write what became of them as sets.

-- name: settlement_peek
-- The first due timers, unlocked: up to a number in each bucket and in all, in order; and as the
-- last row the time, even where nothing is due. A node waits `grace` before it reaches into a
-- bucket that another one prefers. Below the low-water mark only dead rows remain. Left out are
-- payments of locked accounts ($7).
SELECT due_at, subject, bucket, at FROM (
    (SELECT found.due_at, found.subject, found.bucket, NULL::timestamptz AS at
       FROM settlement_due($1, $2, $3, $4, $5, $7) AS found
      ORDER BY found.due_at, found.subject LIMIT $6)
     UNION ALL
    SELECT NULL, NULL, NULL, clock()) AS seen
 ORDER BY at NULLS FIRST, due_at, subject

-- name: settlement_lock
SELECT bucket, tenant_id, subject, due_at, token, from_account, to_account, amount, hold,
       retry_until, traceparent, held, at
  FROM settlement_lock($1, $2, $3)

-- name: settlement_take
SELECT * FROM settlement_take($1, $2, $3)

-- name: settlement_pay
SELECT settlement_pay($1, $2, $3)

-- name: settlement_first_due
SELECT DISTINCT ON (a.subject) a.subject, a.due_at
  FROM unnest($1::smallint[], $2::uuid[]) AS wanted (bucket, subject)
  JOIN attempt a ON a.bucket = wanted.bucket AND a.subject = wanted.subject
 WHERE a.bucket = ANY ($1) ORDER BY a.subject, a.attempt

-- name: settlement_terms
SELECT from_account, to_account, amount, hold, retry_until, traceparent
  FROM payment WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: settlement_earlier
-- Whether a payment of these tenants ($7) that is not among ours ($6) is open before a place in the
-- order of settling ($4, $5).
SELECT EXISTS (
    SELECT 1 FROM unnest($1::smallint[], $2::timestamptz[]) AS wanted (bucket, low)
      JOIN timer t ON t.bucket = wanted.bucket AND t.lane_id = $3 AND t.due_at >= wanted.low
       AND (t.due_at, t.subject) < ($4, $5) AND t.tenant_id = ANY ($7::integer[])
     WHERE t.subject <> ALL ($6::uuid[]))

-- name: settlement_earliest
-- As above; the first such payment of each account ($7, $8) that it touches.
SELECT DISTINCT ON (asked.tenant_id, asked.account_id)
       asked.tenant_id, asked.account_id, found.due_at, found.subject
  FROM (SELECT t.tenant_id, t.due_at, t.subject, p.from_account, p.to_account
          FROM unnest($1::smallint[], $2::timestamptz[]) AS wanted (bucket, low)
          JOIN timer t ON t.bucket = wanted.bucket AND t.lane_id = $3 AND t.due_at >= wanted.low
           AND (t.due_at, t.subject) < ($4, $5) AND t.tenant_id = ANY ($7::integer[])
          JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id
           AND p.payment_id = t.subject
         WHERE t.subject NOT IN (SELECT unnest($6::uuid[]))) AS found
  JOIN unnest($7::integer[], $8::text[]) AS asked (tenant_id, account_id)
    ON asked.tenant_id = found.tenant_id
   AND asked.account_id IN (found.from_account, found.to_account)
 ORDER BY asked.tenant_id, asked.account_id, found.due_at, found.subject

-- name: settlement_complete
SELECT payment_settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)

-- name: settlement_delete_timers
SELECT payment_leave($1)

-- name: settlement_failed
INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
                     code, error, execution_id)
SELECT bucket, tenant_id, subject, token + 1, 'FAILED', due_at, $6::timestamptz, clock(),
       code, error, $7::text
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[], $5::timestamptz[],
              $8::text[], $9::text[]) AS t (bucket, tenant_id, subject, token, due_at, code, error)

-- name: settlement_attempt
INSERT INTO attempt (bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
                     code, error, retry_at, execution_id)
SELECT bucket, tenant_id, subject, token + 1, 'FAILED', due_at, $6::timestamptz, clock(),
       code, error, retry_at, $7::text
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[], $5::timestamptz[],
              $8::text[], $9::text[], $10::timestamptz[])
       AS t (bucket, tenant_id, subject, token, due_at, code, error, retry_at)

-- name: settlement_retry
UPDATE timer t SET due_at = later.due_at, token = t.token + 1, claimed_at = NULL,
       ready_at = NULL
  FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[]) AS later (bucket, subject, due_at)
 WHERE t.bucket = later.bucket AND t.subject = later.subject

-- name: settlement_park
-- It waits for a person: no scan for due timers finds it again.
UPDATE timer SET due_at = 'infinity', ready_at = due_at, token = token + 1, claimed_at = clock()
 WHERE bucket = $1 AND subject = $2

-- name: settlement_delete
DELETE FROM timer t USING unnest($1::smallint[], $2::uuid[]) AS done (bucket, subject)
 WHERE t.bucket = done.bucket AND t.subject = done.subject

-- name: settlement_on_broken
SELECT on_broken FROM payment WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: settlement_broken_count
-- How often an execution broke for a reason that had nothing to do with money.
SELECT count(*) FROM attempt WHERE bucket = $1 AND subject = $2 AND code = $3
