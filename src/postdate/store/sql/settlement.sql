-- Settlement: find due payments, lock them, write what became of them as sets.

-- name: settlement_peek
-- The first due timers of each bucket, unlocked, and the time even where there are none. A node
-- waits `grace` before it reaches into a bucket that another one prefers. Below the low-water mark
-- only dead rows remain.
SELECT clock() AS at, found.due_at, found.subject, wanted.bucket
  FROM unnest($1::smallint[], $2::timestamptz[], $3::float8[]) AS wanted (bucket, low, grace)
  LEFT JOIN LATERAL (
       SELECT t.due_at, t.subject FROM timer t
        WHERE t.bucket = wanted.bucket AND t.lane_id = $4 AND t.due_at >= wanted.low
          AND t.due_at <= clock() - make_interval(secs => wanted.grace)
        ORDER BY t.due_at, t.subject LIMIT $5) AS found ON true

-- name: settlement_lock
SELECT bucket, tenant_id, subject, due_at, token, at, held FROM settlement_lock($1, $2, $3)

-- name: settlement_terms
-- The bounds let the planner leave out every partition that holds none of these payments.
SELECT p.payment_id, p.from_account, p.to_account, p.amount, p.hold, p.retry_until,
       p.traceparent
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[]) AS wanted (bucket, tenant_id, payment_id)
  JOIN payment p USING (bucket, tenant_id, payment_id)
 WHERE p.payment_id BETWEEN $4 AND $5

-- name: settlement_earlier
-- The first open payment that is not among ours, up to an instant.
SELECT found.due_at, found.subject
  FROM unnest($1::smallint[], $2::timestamptz[]) AS wanted (bucket, low)
 CROSS JOIN LATERAL (
       SELECT t.due_at, t.subject FROM timer t
        WHERE t.bucket = wanted.bucket AND t.lane_id = $3 AND t.due_at >= wanted.low
          AND t.due_at <= $4 AND t.subject NOT IN (SELECT unnest($5::uuid[]))
        ORDER BY t.due_at, t.subject LIMIT 1) AS found
 ORDER BY found.due_at, found.subject LIMIT 1

-- name: settlement_entries
-- Both legs of each transfer.
WITH transfer AS (
    SELECT * FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::bigint[],
                         $5::smallint[], $6::text[], $7::bigint[], $8::bigint[],
                         $9::smallint[], $10::text[], $11::bigint[], $12::bigint[])
           AS t (tenant_id, transfer_id, payment_id, amount,
                 from_bucket, from_account, from_balance, from_version,
                 to_bucket, to_account, to_balance, to_version))
INSERT INTO entry (bucket, tenant_id, account_id, version, transfer_id, amount, balance, type,
                   payment_id)
SELECT from_bucket, tenant_id, from_account, from_version, transfer_id, -amount, from_balance,
       'PAYMENT', payment_id FROM transfer
 UNION ALL
SELECT to_bucket, tenant_id, to_account, to_version, transfer_id, amount, to_balance,
       'PAYMENT', payment_id FROM transfer

-- name: settlement_completed
INSERT INTO outcome (bucket, tenant_id, subject, token, status, due_at, started_at, finished_at,
                     transfer_id, execution_id)
SELECT bucket, tenant_id, subject, token + 1, 'COMPLETED', due_at, $6::timestamptz, clock(),
       transfer_id, $7::text
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[], $5::timestamptz[],
              $8::uuid[]) AS t (bucket, tenant_id, subject, token, due_at, transfer_id)

-- name: settlement_announce
-- What subscribers and the payment's page need: the transfer, and where its entries stand.
INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
SELECT bucket, tenant_id, subject, event_id, 'payment.completed', $8::text,
       jsonb_build_object('transfer_id', transfer_id, 'from_version', from_version,
                          'to_version', to_version)
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::uuid[], $5::uuid[], $6::bigint[],
              $7::bigint[])
       AS t (bucket, tenant_id, subject, event_id, transfer_id, from_version, to_version)

-- name: settlement_failed
INSERT INTO outcome (bucket, tenant_id, subject, token, status, due_at, started_at, finished_at,
                     code, error, execution_id)
SELECT bucket, tenant_id, subject, token + 1, 'FAILED', due_at, $6::timestamptz, clock(),
       code, error, $7::text
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::integer[], $5::timestamptz[],
              $8::text[], $9::text[]) AS t (bucket, tenant_id, subject, token, due_at, code, error)

-- name: settlement_attempt
INSERT INTO attempt (bucket, tenant_id, subject, token, status, due_at, started_at, finished_at,
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
-- It waits for a person: nothing that looks for due timers finds it again.
UPDATE timer SET due_at = 'infinity', ready_at = due_at, token = token + 1, claimed_at = clock()
 WHERE bucket = $1 AND subject = $2

-- name: settlement_delete
DELETE FROM timer t USING unnest($1::smallint[], $2::uuid[]) AS done (bucket, subject)
 WHERE t.bucket = done.bucket AND t.subject = done.subject

-- name: settlement_trials
-- How often an execution broke for a reason that had nothing to do with money.
SELECT count(*) FROM attempt WHERE bucket = $1 AND subject = $2 AND code = $3
