-- Payments: what was asked for, and, from timer, attempt and outcome, where it stands.

-- name: payment_accept
SELECT halt_refuse_new($2, $11),
       payment_accept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)

-- name: payment_load
-- Whole payments by id, with their approvals. Each join is by primary key, so that partitions are
-- pruned row by row; those outside of the ids' range ($4 to $5) are not even begun.
SELECT p.bucket, p.tenant_id, p.payment_id, p.from_account, p.to_account, p.amount, p.due_at,
       p.hold, p.retry_until, p.created_at, p.description, p.schedule_id, p.on_broken,
       coalesce(t.due_at = 'infinity', false) AS parked,
       nullif(t.due_at, 'infinity') AS timer_due_at,
       o.status, o.due_at AS outcome_due_at, o.finished_at, o.transfer_id,
       coalesce(o.code, a.code) AS code, coalesce(o.error, a.error) AS error,
       a.due_at AS attempt_due_at, a.attempt AS attempts, a.finished_at AS attempted_at,
       first.due_at AS first_due_at,
       v.requested_by, v.requested_at, v.expires_at, v.decision, v.decided_by, v.decided_at, v.note
  FROM unnest($2::smallint[], $3::uuid[]) AS wanted (bucket, payment_id)
  JOIN payment p ON p.bucket = wanted.bucket AND p.tenant_id = $1
       AND p.payment_id = wanted.payment_id AND p.payment_id BETWEEN $4 AND $5
  LEFT JOIN timer t ON t.bucket = wanted.bucket AND t.subject = wanted.payment_id
  LEFT JOIN outcome o ON o.bucket = wanted.bucket AND o.subject = wanted.payment_id
       AND o.subject BETWEEN $4 AND $5
  LEFT JOIN LATERAL (
       SELECT code, error, due_at, attempt, finished_at FROM attempt
        WHERE attempt.bucket = wanted.bucket AND attempt.subject = wanted.payment_id
          AND attempt.subject BETWEEN $4 AND $5 AND t.token > 0
        ORDER BY attempt DESC LIMIT 1) AS a ON true
  LEFT JOIN LATERAL (
       SELECT due_at FROM attempt
        WHERE attempt.bucket = wanted.bucket AND attempt.subject = wanted.payment_id
          AND attempt.subject BETWEEN $4 AND $5 AND (t.token > 0 OR o.attempt > 1)
        ORDER BY attempt LIMIT 1) AS first ON true
  LEFT JOIN payment_approval v ON v.bucket = wanted.bucket AND v.tenant_id = $1
       AND v.payment_id = wanted.payment_id
 ORDER BY p.payment_id DESC

-- name: payment_newest
-- Each bucket gives its newest ones; their merge is the page. The lower bound spares partitions.
SELECT found.payment_id FROM generate_series(0, 63) AS place (bucket)
 CROSS JOIN LATERAL (
       SELECT payment_id FROM payment p
        WHERE p.bucket = place.bucket AND p.tenant_id = $1 AND p.payment_id >= $4
          AND p.payment_id < $2
        ORDER BY p.payment_id DESC LIMIT $3) AS found
 ORDER BY found.payment_id DESC LIMIT $3

-- name: payment_of_account
-- What an account pays lies in its own bucket; what it is paid lies in those of its payers.
SELECT found.payment_id FROM (
    (SELECT p.payment_id FROM payment p
      WHERE p.bucket = $5 AND p.tenant_id = $1 AND p.from_account = $6
        AND p.payment_id >= $4 AND p.payment_id < $2
      ORDER BY p.payment_id DESC LIMIT $3)
    UNION ALL
    SELECT incoming.payment_id FROM generate_series(0, 63) AS place (bucket)
     CROSS JOIN LATERAL (
           SELECT p.payment_id FROM payment p
            WHERE p.bucket = place.bucket AND p.tenant_id = $1 AND p.to_account = $6
              AND p.payment_id >= $4 AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $3) AS incoming) AS found
 ORDER BY found.payment_id DESC LIMIT $3

-- name: payment_of_amount
-- Looks at the newest $7 of each bucket, and from there on at none: `edge` is where the next look
-- begins. An index would find any amount, and every payment would pay for it.
WITH scanned AS (
    SELECT found.* FROM generate_series(0, 63) AS place (bucket)
     CROSS JOIN LATERAL (
           SELECT p.payment_id, p.amount,
                  row_number() OVER (ORDER BY p.payment_id DESC) AS walked
             FROM payment p
            WHERE p.bucket = place.bucket AND p.tenant_id = $1 AND p.payment_id >= $4
              AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $7) AS found),
edge AS (SELECT payment_id FROM scanned WHERE walked = $7 ORDER BY payment_id DESC LIMIT 1)
(SELECT s.payment_id, false AS is_edge FROM scanned s
  WHERE s.amount BETWEEN $5 AND $6
    AND NOT EXISTS (SELECT FROM edge e WHERE s.payment_id < e.payment_id)
  ORDER BY s.payment_id DESC LIMIT $3)
 UNION ALL SELECT payment_id, true FROM edge

-- name: payment_of_account_amount
-- The same among what an account pays and is paid.
WITH scanned AS (
    SELECT own.* FROM (
        SELECT p.payment_id, p.amount, row_number() OVER (ORDER BY p.payment_id DESC) AS walked
          FROM payment p
         WHERE p.bucket = $8 AND p.tenant_id = $1 AND p.from_account = $9
           AND p.payment_id >= $4 AND p.payment_id < $2
         ORDER BY p.payment_id DESC LIMIT $7) AS own
    UNION ALL
    SELECT incoming.* FROM generate_series(0, 63) AS place (bucket)
     CROSS JOIN LATERAL (
           SELECT p.payment_id, p.amount,
                  row_number() OVER (ORDER BY p.payment_id DESC) AS walked
             FROM payment p
            WHERE p.bucket = place.bucket AND p.tenant_id = $1 AND p.to_account = $9
              AND p.payment_id >= $4 AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $7) AS incoming),
edge AS (SELECT payment_id FROM scanned WHERE walked = $7 ORDER BY payment_id DESC LIMIT 1)
(SELECT s.payment_id, false AS is_edge FROM scanned s
  WHERE s.amount BETWEEN $5 AND $6
    AND NOT EXISTS (SELECT FROM edge e WHERE s.payment_id < e.payment_id)
  ORDER BY s.payment_id DESC LIMIT $3)
 UNION ALL SELECT payment_id, true FROM edge

-- name: payment_ended
-- Those that failed or were cancelled; jobs that ended so are passed over, looked up in the order
-- of the list until it is full. Looks at the newest $6 of each bucket: `edge` is where the next
-- look begins.
WITH scanned AS (
    SELECT place.bucket, found.subject FROM generate_series(0, 63) AS place (bucket)
     CROSS JOIN LATERAL (
           SELECT o.subject FROM outcome o
            WHERE o.bucket = place.bucket AND o.tenant_id = $1 AND o.status = $5
              AND o.status <> 'COMPLETED' AND o.subject >= $4 AND o.subject < $2
            ORDER BY o.subject DESC LIMIT $6) AS found),
edge AS (
    SELECT subject FROM (
        SELECT DISTINCT ON (bucket) subject, count(*) OVER (PARTITION BY bucket) AS walked
          FROM scanned ORDER BY bucket, subject) AS ends
     WHERE walked = $6 ORDER BY subject DESC LIMIT 1)
(SELECT near.subject, false AS is_edge
   FROM (SELECT s.bucket, s.subject FROM scanned s
          WHERE NOT EXISTS (SELECT FROM edge e WHERE s.subject < e.subject)
          ORDER BY s.subject DESC OFFSET 0) AS near
  CROSS JOIN LATERAL (
        SELECT FROM payment p
         WHERE p.bucket = near.bucket AND p.tenant_id = $1 AND p.payment_id = near.subject
        OFFSET 0) AS known
  ORDER BY near.subject DESC LIMIT $3)
 UNION ALL SELECT subject, true FROM edge

-- name: payment_parked
-- Dead letters: payments whose timer waits for a person.
SELECT t.subject FROM generate_series(0, 63) AS place (bucket)
  JOIN timer t ON t.bucket = place.bucket AND t.lane_id = $5 AND t.due_at = 'infinity'
   AND t.tenant_id = $1 AND t.subject >= $4 AND t.subject < $2
 ORDER BY t.subject DESC LIMIT $3

-- name: payment_executions
-- Every execution: those that did not end the payment, and the one that did.
SELECT attempt, status, due_at, started_at, finished_at, retry_at, execution_id, code, error
  FROM attempt WHERE bucket = $2 AND subject = $3 AND tenant_id = $1
UNION ALL
SELECT attempt, status, due_at, started_at, finished_at, NULL, execution_id, code, error
  FROM outcome WHERE bucket = $2 AND subject = $3 AND tenant_id = $1 AND status <> 'CANCELLED'
 ORDER BY attempt, finished_at
