-- A job as a client sees it: the job, its last revision, its timer and its outcome.

-- name: job_view_find
-- Whole jobs by id; see the function.
SELECT * FROM job_read($1, $2, $3, $4, $5, $6)

-- name: job_view_attempts
-- Executions that did not end the job, then the one that did; a cancelled job may have none.
SELECT * FROM (
    SELECT attempt, status, due_at, started_at, finished_at, retry_at, http_status, code, error,
           response, node_id
      FROM attempt WHERE bucket = $1 AND tenant_id = $2 AND subject = $3
     UNION ALL
    SELECT attempt, CASE WHEN status = 'FAILED' AND doubt = 'LAST' THEN 'UNKNOWN' ELSE status END,
           due_at, started_at, finished_at, NULL, http_status, code, error,
           response, node_id
      FROM outcome WHERE bucket = $1 AND tenant_id = $2 AND subject = $3
       AND started_at IS NOT NULL) AS execution
 WHERE attempt > $4 ORDER BY attempt LIMIT $5

-- name: job_view_before
-- How many jobs of a lane are due before an instant and wait, counted only so far in each bucket.
SELECT coalesce(sum(counted.waiting), 0)::integer
  FROM (SELECT (SELECT count(*)
                  FROM (SELECT FROM timer t
                         WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                           AND t.due_at < $3 AND t.claimed_at IS NULL
                         ORDER BY t.due_at LIMIT $4) AS soonest) AS waiting
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[]) AS wanted (bucket, lane_id)
            ON wanted.bucket = place.bucket) AS counted
