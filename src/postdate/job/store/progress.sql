-- Progress: what workers report of executions under way, and requests to cancel them. A statement
-- names one bucket. A writer has locked the job's timer.

-- name: progress_checkpoints
-- What earlier attempts at these jobs left for the next.
SELECT job_id, checkpoint FROM job_progress
 WHERE bucket = $1 AND job_id = ANY ($2::uuid[]) AND tenant_id = $3 AND checkpoint IS NOT NULL

-- name: progress_find
-- How far a job has come, and whether it is to be cancelled.
SELECT percent, note, updated_at, cancel_requested_at, cancel_deadline FROM job_progress
 WHERE bucket = $1 AND job_id = $2 AND tenant_id = $3

-- name: progress_put
-- A field that is not given stays as it is.
INSERT INTO job_progress AS p (bucket, tenant_id, job_id, percent, note, checkpoint, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, clock())
ON CONFLICT (bucket, job_id) DO UPDATE
   SET percent = coalesce(excluded.percent, p.percent), note = coalesce(excluded.note, p.note),
       checkpoint = coalesce(excluded.checkpoint, p.checkpoint), updated_at = excluded.updated_at

-- name: progress_log_find
SELECT dropped, lines FROM attempt_log
 WHERE bucket = $1 AND job_id = $2 AND attempt = $3 AND tenant_id = $4

-- name: progress_log_put
INSERT INTO attempt_log (bucket, attempt, tenant_id, job_id, dropped, lines)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (bucket, job_id, attempt) DO UPDATE
   SET dropped = excluded.dropped, lines = excluded.lines

-- name: progress_logs
-- The lines of some attempts at a job.
SELECT attempt, dropped, lines FROM attempt_log
 WHERE bucket = $1 AND job_id = $2 AND tenant_id = $3 AND attempt = ANY ($4::smallint[])
