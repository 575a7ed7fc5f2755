-- Leases: claimed timers. A statement names one bucket, and changes only what the token still owns:
-- a lease is held by (token, claimed_at IS NOT NULL), so a stale write changes no row.

-- name: lease_claim
-- Take the first due timers of a bucket's lane. Below the low-water mark ($3) only dead rows
-- remain, and walking them under a pinned snapshot would cost more than the claim itself. What was
-- just locked is found again by its place in the table, not by another lookup in an
-- index. A row that was changed since this statement began has another place that it
-- cannot see: it is left, and taken the next time.
WITH due AS MATERIALIZED (
    SELECT t.ctid AS place, t.due_at
      FROM timer t
     WHERE t.bucket = $1 AND t.lane_id = $2 AND t.due_at >= $3 AND t.due_at <= clock()
       AND t.tenant_id <> ALL ((SELECT tenants_held())::integer[])
     ORDER BY t.due_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE timer t
   SET due_at = (SELECT clock() + make_interval(secs => $5)), claimed_at = (SELECT clock()),
       claimed_by = $6, ready_at = due.due_at,
       token = greatest((SELECT claim_token($7::integer)), t.token + 1 + $7)
  FROM due WHERE t.bucket = $1 AND t.ctid = due.place
RETURNING t.subject, t.token, t.ready_at

-- name: lease_take
-- Claim jobs as lease_claim does, and load what their execution needs in the same breath. OFFSET 0
-- keeps the read of each job a lookup by its key, whatever the planner thinks of LIMIT. Instants
-- cost the driver most, so one goes for each row: lateness comes in seconds, and the first due
-- instant only where it is another. A lease that ran out was an attempt: it is counted here, and
-- written down by lease_record_lost. Of jobs with keys ($9) nothing is taken where the lane limits
-- each key, whatever the caller remembers of the lane: those go by lane_key_choose.
WITH due AS MATERIALIZED (
    SELECT t.ctid AS place, t.due_at, t.claimed_at, t.claimed_by, t.ready_at,
           t.token + t.attempt > 0 AS again
      FROM timer t
     WHERE t.bucket = $1 AND t.lane_id = $2 AND t.due_at >= $3 AND t.due_at <= clock()
       AND $7 <> ALL ((SELECT tenants_held())::integer[])
       AND (NOT $9::boolean OR (SELECT l.per_key IS NULL FROM lane l WHERE l.lane_id = $2))
     ORDER BY t.due_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED),
claimed AS (
    UPDATE timer t
       SET due_at = (SELECT clock() + make_interval(secs => $5)), claimed_at = (SELECT clock()),
           claimed_by = $6, ready_at = due.due_at,
           token = greatest((SELECT claim_token($8::integer)), t.token + 1 + $8),
           attempt = t.attempt + (t.claimed_at IS NOT NULL)::integer
      FROM due WHERE t.bucket = $1 AND t.ctid = due.place
    RETURNING t.subject, t.token, t.attempt, t.revision, t.ready_at, due.claimed_at AS lost_at,
              due.claimed_by AS lost_by, due.ready_at AS lost_ready_at, due.again)
SELECT c.subject, c.token, c.attempt + 1 AS attempt, c.revision, c.ready_at,
       date_part('epoch', (SELECT clock()) - c.ready_at) AS late_seconds,
       c.lost_at, c.lost_by, c.lost_ready_at, nullif(j.effective_at, c.ready_at) AS first_due_at,
       j.expires_at, j.destination::text, j.policy::text, j.payload, j.content_type,
       j.payload_ref, j.metadata::text, j.schedule_id,
       CASE WHEN j.schedule_id IS NOT NULL THEN j.due_at END AS scheduled_for, j.origin_id,
       j.traceparent, c.again
  FROM claimed c
  LEFT JOIN LATERAL (
       SELECT * FROM job
        WHERE bucket = $1 AND tenant_id = $7 AND job_id = c.subject OFFSET 0) AS j ON true

-- name: lease_record_lost
-- Write down the leases that ran out, as found by the claims that took over.
INSERT INTO attempt (bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
                     code, error, node_id)
SELECT $1, $2, subject, attempt, 'LOST', due_at, started_at, finished_at, 'worker_lost',
       'The lease ran out before an outcome was recorded.', node_id
  FROM unnest($3::uuid[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
              $8::uuid[]) AS lost (subject, attempt, due_at, started_at, finished_at, node_id)

-- name: lease_lock
-- Lock the timers that are free, and name the others; what has no timer is not named. A
-- claim whose commit is in doubt holds its timers until it has committed or rolled back: what is
-- locked here shows by the next statement whose it is, for good.
WITH free AS MATERIALIZED (
    SELECT subject FROM timer WHERE bucket = $1 AND subject = ANY($2::uuid[])
     ORDER BY subject FOR UPDATE SKIP LOCKED)
SELECT t.subject FROM timer t
 WHERE t.bucket = $1 AND t.subject = ANY($2::uuid[]) AND t.subject NOT IN (SELECT subject FROM free)

-- name: lease_renew
-- Push the end of leases out. A timer that another transaction has locked is skipped, and comes
-- with NULL: one stranger must not keep the other leases of a node from being renewed.
WITH held AS MATERIALIZED (
    SELECT t.subject
      FROM unnest($2::uuid[], $3::bigint[], $4::float8[]) AS h (subject, token, seconds)
      JOIN timer t ON t.bucket = $1 AND t.subject = h.subject AND t.token = h.token
     WHERE t.claimed_at IS NOT NULL),
free AS MATERIALIZED (
    SELECT t.ctid AS place, clock() + make_interval(secs => h.seconds) AS until
      FROM unnest($2::uuid[], $3::bigint[], $4::float8[]) AS h (subject, token, seconds)
      JOIN timer t ON t.bucket = $1 AND t.subject = h.subject AND t.token = h.token
     WHERE t.claimed_at IS NOT NULL
       FOR NO KEY UPDATE OF t SKIP LOCKED),
renewed AS (
    UPDATE timer t SET due_at = free.until
      FROM free WHERE t.bucket = $1 AND t.ctid = free.place
    RETURNING t.subject, t.due_at)
SELECT held.subject, renewed.due_at FROM held LEFT JOIN renewed ON renewed.subject = held.subject

-- name: lease_wait
-- Wait until no other transaction has locked the timer, for as long as locks are waited for.
SELECT FROM timer WHERE bucket = $1 AND subject = $2 FOR NO KEY UPDATE

-- name: lease_move
-- End leases without ending the matter: due again after a number of seconds, or (NULL) parked for a
-- person. The token stays as it is; the next claim raises it. What was tried is counted.
UPDATE timer t
   SET attempt = t.attempt + m.tried::integer,
       due_at = m.due_at, claimed_at = NULL, claimed_by = NULL, ready_at = NULL
  FROM (SELECT subject, token, tried,
               coalesce(clock() + make_interval(secs => seconds), 'infinity') AS due_at
          FROM unnest($2::uuid[], $3::bigint[], $4::float8[], $5::boolean[])
               AS given (subject, token, seconds, tried) OFFSET 0) AS m
  JOIN timer was ON was.bucket = $1 AND was.subject = m.subject
 WHERE t.bucket = $1 AND t.subject = m.subject AND t.token = m.token AND t.claimed_at IS NOT NULL
RETURNING t.subject, t.tenant_id, nullif(t.due_at, 'infinity') AS retry_at, was.ready_at,
          was.claimed_at, was.claimed_by

-- name: lease_find
-- The leases of these jobs, of any holder.
SELECT t.subject, t.tenant_id, t.lane_id, t.token, t.attempt + 1 AS attempt, t.revision,
       t.claimed_at, t.key_id
  FROM unnest($2::uuid[]) AS wanted (subject)
  JOIN timer t ON t.bucket = $1 AND t.subject = wanted.subject
 WHERE t.claimed_at IS NOT NULL

-- name: lease_find_end
-- What is left of a job without a lease: whether it exists, and how it ended.
SELECT o.token, o.status FROM job j
  LEFT JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
 WHERE j.bucket = $1 AND j.tenant_id = $2 AND j.job_id = $3
