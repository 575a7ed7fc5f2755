-- Payments: what was asked for, and, from timer, attempt and outcome, where it stands.

-- name: payment_look
-- What decisions rest on, in one round trip: accounts, the time, and what is known under the keys.
SELECT at, bucket, tenant_id, account_id, balance, held, version, floor, max_amount, frozen_at,
       closed_at, currency, NULL::smallint AS key_bucket, NULL::smallint AS scope,
       NULL::integer AS key_tenant, NULL::uuid AS key, NULL::uuid AS fingerprint,
       NULL::uuid AS subject, NULL::timestamptz AS created_at, NULL::bytea AS kept
  FROM account_gather($1, $2, $3, $4, $5, $6)
 UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       bucket, scope, tenant_id, key, fingerprint, subject, created_at, kept
  FROM idempotency_find($7, $8, $9, $10)

-- name: payment_as_accepted
SELECT from_account, to_account, amount, due_at, hold, retry_until, description, on_broken,
       refund_of
  FROM payment WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: payment_parties
SELECT p.payment_id, p.from_account, p.to_account, p.description
  FROM unnest($2::smallint[], $3::uuid[]) AS wanted (bucket, payment_id)
  JOIN payment p ON p.bucket = wanted.bucket AND p.tenant_id = $1
       AND p.payment_id = wanted.payment_id AND p.payment_id BETWEEN $4 AND $5
 WHERE p.bucket = ANY ($2::smallint[])

-- name: payment_load
-- Whole payments by id; see the function. A transfer's id carries the bucket of the payee, who pays
-- refunds; none is older than $6.
SELECT found.*,
       CASE WHEN found.status = 'COMPLETED' AND found.refund_of IS NULL
            THEN payment_refund_total(bucket_of(found.transfer_id), $1, found.payment_id, $6) END
  FROM payment_read($1, $2, $3, $4, $5) AS found

-- name: payment_refunded
SELECT * FROM payment_refunded($1, $2, $3, $4)

-- name: payment_newest
-- Each bucket gives its newest ones; their merge is the page. The lower bound spares partitions.
SELECT found.payment_id FROM outbox_lock AS buckets
 CROSS JOIN LATERAL (
       SELECT payment_id FROM payment p
        WHERE p.bucket = buckets.bucket AND p.tenant_id = $1 AND p.payment_id >= $4
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
    SELECT incoming.payment_id FROM outbox_lock AS buckets
     CROSS JOIN LATERAL (
           SELECT p.payment_id FROM payment p
            WHERE p.bucket = buckets.bucket AND p.tenant_id = $1 AND p.to_account = $6
              AND p.payment_id >= $4 AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $3) AS incoming) AS found
 ORDER BY found.payment_id DESC LIMIT $3

-- name: payment_of_amount
-- Reads the newest $7 of each bucket and no more: `edge` is where the next read begins. An index
-- would find any amount, and every payment would pay for it.
WITH scanned AS (
    SELECT found.* FROM outbox_lock AS buckets
     CROSS JOIN LATERAL (
           SELECT p.payment_id, p.amount,
                  row_number() OVER (PARTITION BY p.bucket
                                     ORDER BY p.payment_id DESC) AS walked
             FROM payment p
            WHERE p.bucket = buckets.bucket AND p.tenant_id = $1 AND p.payment_id >= $4
              AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $7) AS found),
edge AS (SELECT payment_id FROM scanned WHERE walked = $7 ORDER BY payment_id DESC LIMIT 1)
(SELECT s.payment_id, false AS is_edge FROM scanned s
  WHERE EXISTS (SELECT FROM unnest($5::bigint[], $6::bigint[]) AS range (low, high)
                 WHERE s.amount BETWEEN range.low AND range.high)
    AND NOT EXISTS (SELECT FROM edge e WHERE s.payment_id < e.payment_id)
  ORDER BY s.payment_id DESC LIMIT $3)
 UNION ALL SELECT payment_id, true FROM edge

-- name: payment_of_account_amount
-- The same among what an account pays and is paid.
WITH scanned AS (
    SELECT own.* FROM (
        SELECT p.payment_id, p.amount, row_number() OVER (PARTITION BY p.bucket
                                     ORDER BY p.payment_id DESC) AS walked
          FROM payment p
         WHERE p.bucket = $8 AND p.tenant_id = $1 AND p.from_account = $9
           AND p.payment_id >= $4 AND p.payment_id < $2
         ORDER BY p.payment_id DESC LIMIT $7) AS own
    UNION ALL
    SELECT incoming.* FROM outbox_lock AS buckets
     CROSS JOIN LATERAL (
           SELECT p.payment_id, p.amount,
                  row_number() OVER (PARTITION BY p.bucket
                                     ORDER BY p.payment_id DESC) AS walked
             FROM payment p
            WHERE p.bucket = buckets.bucket AND p.tenant_id = $1 AND p.to_account = $9
              AND p.payment_id >= $4 AND p.payment_id < $2
            ORDER BY p.payment_id DESC LIMIT $7) AS incoming),
edge AS (SELECT payment_id FROM scanned WHERE walked = $7 ORDER BY payment_id DESC LIMIT 1)
(SELECT s.payment_id, false AS is_edge FROM scanned s
  WHERE EXISTS (SELECT FROM unnest($5::bigint[], $6::bigint[]) AS range (low, high)
                 WHERE s.amount BETWEEN range.low AND range.high)
    AND NOT EXISTS (SELECT FROM edge e WHERE s.payment_id < e.payment_id)
  ORDER BY s.payment_id DESC LIMIT $3)
 UNION ALL SELECT payment_id, true FROM edge

-- name: payment_ended
-- Payments that failed or were cancelled; jobs that ended so are passed over, looked up in the
-- order of the list until it is full. Reads the newest $6 of each bucket: `edge` is where the next
-- read begins.
WITH scanned AS (
    SELECT buckets.bucket, found.subject FROM outbox_lock AS buckets
     CROSS JOIN LATERAL (
           SELECT o.subject FROM outcome o
            WHERE o.bucket = buckets.bucket AND o.tenant_id = $1 AND o.status = $5
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
   JOIN payment p ON p.bucket = near.bucket AND p.tenant_id = $1 AND p.payment_id = near.subject
  ORDER BY near.subject DESC LIMIT $3)
 UNION ALL SELECT subject, true FROM edge

-- name: payment_parked
-- Dead letters: payments whose timer waits for a person.
SELECT t.subject FROM outbox_lock AS buckets
  JOIN timer t ON t.bucket = buckets.bucket AND t.lane_id = $5 AND t.due_at = 'infinity'
   AND t.tenant_id = $1 AND t.subject >= $4 AND t.subject < $2
 ORDER BY t.subject DESC LIMIT $3

-- name: payment_executions
-- Every execution: the ones that did not end the payment, and the one that did.
SELECT attempt, status, due_at, started_at, finished_at, retry_at, execution_id, code, error
  FROM attempt WHERE bucket = $2 AND subject = $3 AND tenant_id = $1
UNION ALL
SELECT attempt, status, due_at, started_at, finished_at, NULL, execution_id, code, error
  FROM outcome WHERE bucket = $2 AND subject = $3 AND tenant_id = $1 AND status <> 'CANCELLED'
 ORDER BY attempt, finished_at
