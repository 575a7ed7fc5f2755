-- Leases of jobs that were chosen before: expired ones, and those of keys that have their turn.

-- name: lease_take_these
-- Claim as lease_take does, of these jobs alone, the due ones.
WITH due AS MATERIALIZED (
    SELECT t.ctid AS place, t.due_at, t.claimed_at, t.claimed_by, t.ready_at,
           t.token + t.attempt > 0 AS again
      FROM timer t
     WHERE t.bucket = $1 AND t.lane_id = $2 AND t.subject = ANY ($3::uuid[])
       AND t.due_at <= clock()
       AND $7 <> ALL ((SELECT tenants_held())::integer[])
     ORDER BY t.due_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED),
claimed AS (
    UPDATE timer t
       SET due_at = clock() + make_interval(secs => $5), claimed_at = clock(), claimed_by = $6,
           ready_at = due.due_at,
           token = greatest((SELECT claim_token($8::integer)), t.token + 1 + $8),
           attempt = t.attempt + (t.claimed_at IS NOT NULL)::integer
      FROM due WHERE t.bucket = $1 AND t.ctid = due.place
    RETURNING t.subject, t.token, t.attempt, t.revision, t.ready_at, due.claimed_at AS lost_at,
              due.claimed_by AS lost_by, due.ready_at AS lost_ready_at, due.again)
SELECT c.subject, c.token, c.attempt + 1 AS attempt, c.revision, c.ready_at,
       date_part('epoch', clock() - c.ready_at) AS late_seconds,
       c.lost_at, c.lost_by, c.lost_ready_at, nullif(j.effective_at, c.ready_at) AS first_due_at,
       j.expires_at, j.destination::text, j.policy::text, j.payload, j.content_type,
       j.payload_ref, j.metadata::text, j.schedule_id,
       CASE WHEN j.schedule_id IS NOT NULL THEN j.due_at END AS scheduled_for, j.origin_id,
       j.traceparent, c.again
  FROM claimed c
  LEFT JOIN LATERAL (
       SELECT * FROM job
        WHERE bucket = $1 AND tenant_id = $7 AND job_id = c.subject OFFSET 0) AS j ON true
