-- Requests to cancel jobs that run. The caller that writes holds the lock of the job's timer.

-- name: job_cancel_request
SELECT job_id, deadline, fresh FROM job_cancel_request($1, $2, $3, $4, $5)

-- name: job_cancel_requested
-- Which of these jobs are to be cancelled, and who asked for it.
SELECT job_id, tenant_id, cancel_requested_by FROM job_progress
 WHERE bucket = $1 AND job_id = ANY ($2::uuid[]) AND cancel_deadline IS NOT NULL

-- name: job_cancel_due
-- Requests whose deadline has passed. Jobs of tenants in test mode have clocks of their own: who
-- advances one asks for its tenant ($2) alone.
SELECT p.bucket, p.job_id FROM job_progress p
 WHERE p.cancel_deadline <= clock()
   AND CASE WHEN $2::integer IS NULL
            THEN NOT EXISTS (SELECT FROM tenant t WHERE t.tenant_id = p.tenant_id AND t.test)
            ELSE p.tenant_id = $2 END
 ORDER BY p.cancel_deadline LIMIT $1

-- name: job_cancel_next
SELECT cancel_deadline FROM job_progress
 WHERE tenant_id = $1 AND cancel_deadline IS NOT NULL ORDER BY cancel_deadline LIMIT 1

-- name: job_cancel_settle
UPDATE job_progress SET cancel_deadline = NULL, cancel_call_at = NULL
 WHERE bucket = $1 AND job_id = ANY ($2::uuid[])

-- name: job_cancel_calls
-- Requests whose cancel URLs are to be called now, of jobs that a node still calls.
SELECT p.bucket, p.job_id FROM job_progress p
 WHERE p.cancel_call_at <= clock() AND p.cancel_deadline > clock()
   AND NOT EXISTS (SELECT FROM tenant t WHERE t.tenant_id = p.tenant_id AND t.test)
 ORDER BY p.cancel_call_at LIMIT $1

-- name: job_cancel_call_take
-- Take one call for some seconds: another node finds it again if this one dies meanwhile.
UPDATE job_progress SET cancel_call_at = clock() + make_interval(secs => $3)
 WHERE bucket = $1 AND job_id = $2 AND cancel_call_at <= clock()
RETURNING tenant_id, job_id, cancel_deadline, cancel_call_at AS taken_until

-- name: job_cancel_call_of
-- Where a job that is still being run goes.
SELECT j.destination::text FROM job j
 WHERE j.bucket = $1 AND j.tenant_id = $2 AND j.job_id = $3
   AND EXISTS (SELECT FROM timer t
                WHERE t.bucket = $1 AND t.subject = $3 AND t.claimed_at IS NOT NULL)

-- name: job_cancel_call_done
-- A request that came meanwhile, for an earlier deadline, has its own call.
UPDATE job_progress SET cancel_call_at = NULL
 WHERE bucket = $1 AND job_id = $2 AND cancel_call_at = $3
