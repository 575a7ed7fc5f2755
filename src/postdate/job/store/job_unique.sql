-- Unique keys: which job is the newest under each. Accepting jobs under unique keys locks
-- their rows in the order of bucket, tenant and key, and only then the timers of the jobs.

-- name: job_unique_lock
-- Lock the rows of one bucket, made where they are missing, and say which job each names.
INSERT INTO job_unique AS u (bucket, tenant_id, key)
SELECT $1, wanted.tenant_id, wanted.key
  FROM unnest($2::integer[], $3::uuid[]) AS wanted (tenant_id, key)
 ORDER BY wanted.tenant_id, wanted.key
ON CONFLICT (bucket, tenant_id, key) DO UPDATE SET job_id = u.job_id
RETURNING u.tenant_id, u.key, u.job_id

-- name: job_unique_name
-- Name the jobs that hold the keys from now on.
UPDATE job_unique u SET job_id = new.job_id
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[], $4::uuid[])
       AS new (bucket, tenant_id, key, job_id)
 WHERE u.bucket = new.bucket AND u.tenant_id = new.tenant_id AND u.key = new.key

-- name: job_unique_drop
-- Remove rows that were made for jobs that were then refused.
DELETE FROM job_unique u
 USING unnest($1::smallint[], $2::integer[], $3::uuid[]) AS vain (bucket, tenant_id, key)
 WHERE u.bucket = vain.bucket AND u.tenant_id = vain.tenant_id AND u.key = vain.key
   AND u.job_id IS NULL

-- name: job_unique_waits
-- A row where a job waits for its first or next attempt; its timer stays locked.
SELECT subject FROM timer
 WHERE bucket = $1 AND tenant_id = $2 AND subject = $3 AND claimed_at IS NULL
   AND due_at < 'infinity' FOR UPDATE
