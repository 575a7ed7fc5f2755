-- Approvals: who asked for a large payment, and what a second person said.

-- name: approval_request
-- For what a schedule makes, whoever wrote the schedule asked.
INSERT INTO payment_approval (bucket, tenant_id, payment_id, requested_by, expires_at)
SELECT new.bucket, new.tenant_id, new.payment_id, coalesce(v.actor, new.actor),
       clock() + make_interval(secs => new.seconds)
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::text[], $5::uuid[], $6::float8[])
       AS new (bucket, tenant_id, payment_id, actor, schedule_id, seconds)
  LEFT JOIN LATERAL (
       SELECT actor FROM schedule_version
        WHERE bucket = bucket_of(new.schedule_id) AND tenant_id = new.tenant_id
          AND schedule_id = new.schedule_id ORDER BY version DESC LIMIT 1) AS v ON true

-- name: approval_set_aside
UPDATE timer t SET lane_id = $3
  FROM unnest($1::smallint[], $2::uuid[]) AS waiting (bucket, subject)
 WHERE t.bucket = waiting.bucket AND t.subject = waiting.subject

-- name: approval_find
SELECT requested_by, requested_at, expires_at, decision, decided_by, decided_at, note
  FROM payment_approval WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3

-- name: approval_decide
UPDATE payment_approval SET decision = $4, decided_by = $5, decided_at = clock(), note = $6
 WHERE bucket = $1 AND tenant_id = $2 AND payment_id = $3 AND decision IS NULL
RETURNING requested_by, requested_at, expires_at, decision, decided_by, decided_at, note

-- name: approval_open
-- The timer goes where settlers look; what was approved late is due now.
UPDATE timer SET lane_id = $3, due_at = greatest(due_at, clock())
 WHERE bucket = $1 AND subject = $2

-- name: approval_waiting
SELECT payment_id FROM payment_approval
 WHERE tenant_id = $1 AND payment_id > $2 AND decision IS NULL ORDER BY payment_id LIMIT $3

-- name: approval_expired
SELECT tenant_id, payment_id FROM payment_approval
 WHERE expires_at <= clock() AND decision IS NULL ORDER BY expires_at LIMIT $1
