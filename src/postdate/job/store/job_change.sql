-- Changes to open jobs: the transaction that locks the timer's row decides; claimers skip it.

-- name: job_change_lock
-- A person's change waits for the claim or record under way, which is a matter of milliseconds.
SELECT subject AS job_id, lane_id, nullif(due_at, 'infinity') AS due_at, claimed_at, ready_at,
       attempt + (claimed_at IS NOT NULL)::integer AS attempt, revision,
       job_status(due_at, claimed_at, clock()) AS status, clock() AS now
  FROM timer
 WHERE bucket = $1 AND subject = ANY($2::uuid[]) AND tenant_id = $3 AND lane_id >= 16
 ORDER BY subject FOR UPDATE

-- name: job_change_lock_free
-- A change of many jobs skips locked ones, and comes back to them.
SELECT subject AS job_id, lane_id, nullif(due_at, 'infinity') AS due_at, claimed_at, ready_at,
       attempt + (claimed_at IS NOT NULL)::integer AS attempt, revision,
       job_status(due_at, claimed_at, clock()) AS status, clock() AS now
  FROM timer
 WHERE bucket = $1 AND subject = ANY($2::uuid[]) AND tenant_id = $3 AND lane_id >= 16
 ORDER BY subject FOR UPDATE SKIP LOCKED

-- name: job_change_open
-- Which of these jobs are open, locked or not.
SELECT subject FROM timer
 WHERE bucket = $1 AND subject = ANY($2::uuid[]) AND tenant_id = $3 AND lane_id >= 16

-- name: job_change_doubted
-- Which of these locked jobs had an attempt without a clear answer. It is a statement of its own:
-- what the lock was waited for is not yet seen by the one that waited.
SELECT unnest(job_doubted($1, $2::uuid[]))

-- name: job_change_remove
DELETE FROM timer t USING unnest($1::smallint[], $2::uuid[]) AS gone (bucket, subject)
 WHERE t.bucket = gone.bucket AND t.subject = gone.subject

-- name: job_change_end
-- started_at stays NULL when no execution ended it: a list of attempts then shows none for this.
INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
                     code, doubt)
SELECT bucket_of(subject), $1, subject, attempt, status, due_at, started_at, clock(), code, doubt
  FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::timestamptz[], $6::timestamptz[],
              $7::text[], $8::text[])
       AS ended (subject, attempt, status, due_at, started_at, code, doubt)

-- name: job_change_move
UPDATE timer t SET due_at = moved.due_at, revision = moved.revision, claimed_at = NULL,
       claimed_by = NULL, ready_at = NULL, lane_id = coalesce(moved.lane_id, t.lane_id)
  FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::integer[])
       AS moved (bucket, subject, due_at, revision, lane_id)
 WHERE t.bucket = moved.bucket AND t.subject = moved.subject

-- name: job_change_revise
-- A revision that does not change the payload points at the one that carries it.
INSERT INTO job_revision (bucket, tenant_id, job_id, revision, due_at, effective_at, expires_at,
                          policy, payload_revision, payload, content_type, payload_ref, lane_id)
SELECT bucket_of(new.job_id), $1, new.job_id, new.revision, new.due_at, new.effective_at,
       new.expires_at, new.policy::jsonb,
       CASE WHEN new.has_payload THEN new.revision ELSE coalesce(last.payload_revision, 0) END,
       new.payload, new.content_type, new.payload_ref, new.lane_id
  FROM unnest($2::uuid[], $3::integer[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
              $7::text[], $8::integer[], $9::boolean[], $10::bytea[], $11::text[], $12::text[])
       AS new (job_id, revision, due_at, effective_at, expires_at, policy, lane_id, has_payload,
               payload, content_type, payload_ref)
  LEFT JOIN job_revision last ON last.bucket = bucket_of(new.job_id) AND last.job_id = new.job_id
                             AND last.revision = new.revision - 1
