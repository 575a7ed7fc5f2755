-- Requests to cancel jobs that run. The caller that writes holds the lock of the job's timer.

-- name: job_cancel_request
-- A second request may only bring the deadline forward.
INSERT INTO job_progress AS p (bucket, tenant_id, job_id, cancel_requested_at, cancel_requested_by,
                               cancel_deadline)
VALUES ($1, $2, $3, clock(), $4, clock() + make_interval(secs => $5))
ON CONFLICT (bucket, job_id) DO UPDATE
   SET cancel_requested_at = coalesce(p.cancel_requested_at, excluded.cancel_requested_at),
       cancel_requested_by = coalesce(p.cancel_requested_by, excluded.cancel_requested_by),
       cancel_deadline = least(p.cancel_deadline, excluded.cancel_deadline)
RETURNING cancel_deadline

-- name: job_cancel_requested
-- Which of these jobs are to be cancelled, and who asked for it.
SELECT job_id, tenant_id, cancel_requested_by FROM job_progress
 WHERE bucket = $1 AND job_id = ANY ($2::uuid[]) AND cancel_deadline IS NOT NULL

-- name: job_cancel_due
-- Requests whose deadline has passed. Jobs of tenants in test mode have clocks of their own, which
-- only their tests move: they end when their lease does.
SELECT p.bucket, p.job_id FROM job_progress p
 WHERE p.cancel_deadline <= clock()
   AND NOT EXISTS (SELECT FROM tenant t WHERE t.tenant_id = p.tenant_id AND t.test)
 ORDER BY p.cancel_deadline LIMIT $1

-- name: job_cancel_settle
UPDATE job_progress SET cancel_deadline = NULL WHERE bucket = $1 AND job_id = ANY ($2::uuid[])
