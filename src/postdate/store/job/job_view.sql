-- A job as a client sees it: the job, its last revision, its timer and its outcome.

-- name: job_view_find
-- One snapshot: a job has either a timer or an outcome. The last revision is the one that counts.
-- Weeks outside of the ids' range ($5 to $6) are not even begun.
SELECT j.job_id, j.lane_id, l.name,
       CASE WHEN o.subject IS NOT NULL THEN o.status
            WHEN t.due_at = 'infinity' THEN 'UNKNOWN'
            WHEN t.due_at <= clock() THEN 'READY'
            WHEN t.claimed_at IS NOT NULL THEN 'RUNNING'
            ELSE 'PENDING' END AS status,
       coalesce(r.due_at, j.due_at) AS due_at,
       coalesce(r.effective_at, j.effective_at) AS effective_at,
       CASE WHEN r.revision IS NULL THEN j.expires_at ELSE r.expires_at END AS expires_at,
       j.created_at, j.destination::text AS destination,
       CASE WHEN r.revision IS NULL THEN j.policy ELSE r.policy END::text AS policy,
       CASE WHEN NOT $3 THEN NULL WHEN coalesce(r.payload_revision, 0) = 0 THEN j.payload
            ELSE p.payload END AS payload,
       CASE WHEN coalesce(r.payload_revision, 0) = 0 THEN j.content_type
            ELSE p.content_type END AS content_type,
       CASE WHEN coalesce(r.payload_revision, 0) = 0 THEN j.payload_ref
            ELSE p.payload_ref END AS payload_ref,
       j.spread_seconds, j.metadata, j.description, j.schedule_id, j.origin_id,
       coalesce(r.revision, 0) AS revision,
       coalesce(t.attempt + (t.claimed_at IS NOT NULL)::integer, o.attempt, 0) AS attempt,
       nullif(t.due_at, 'infinity') AS timer_due_at, t.claimed_at, o.due_at AS outcome_due_at,
       o.started_at, o.finished_at, coalesce(o.code, a.code) AS code,
       coalesce(o.error, a.error) AS error, coalesce(o.http_status, a.http_status) AS http_status,
       coalesce(t.claimed_by, o.node_id, a.node_id) AS worker_id
  FROM unnest($2::uuid[], $4::smallint[]) AS wanted (job_id, bucket)
  JOIN job j ON j.bucket = wanted.bucket AND j.tenant_id = $1 AND j.job_id = wanted.job_id
            AND j.job_id BETWEEN $5 AND $6
  JOIN lane l ON l.lane_id = j.lane_id
  LEFT JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id
  LEFT JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
            AND o.subject BETWEEN $5 AND $6
  LEFT JOIN LATERAL (
       SELECT x.code, x.error, x.http_status, x.node_id FROM attempt x
        WHERE x.bucket = j.bucket AND x.subject = j.job_id AND x.subject BETWEEN $5 AND $6
          AND t.attempt > 0
        ORDER BY x.attempt DESC LIMIT 1) a ON true
  LEFT JOIN LATERAL (
       SELECT v.* FROM job_revision v WHERE v.bucket = j.bucket AND v.job_id = j.job_id
          AND v.job_id BETWEEN $5 AND $6
        ORDER BY v.revision DESC LIMIT 1) r ON true
  LEFT JOIN job_revision p ON p.bucket = j.bucket AND p.job_id = j.job_id
                          AND p.job_id BETWEEN $5 AND $6 AND p.revision = r.payload_revision

-- name: job_view_attempts
-- Executions that did not end the job, then the one that did; a cancelled job may have none.
SELECT * FROM (
    SELECT attempt, status, due_at, started_at, finished_at, retry_at, http_status, code, error,
           response, node_id
      FROM attempt WHERE bucket = $1 AND tenant_id = $2 AND subject = $3
     UNION ALL
    SELECT attempt, status, due_at, started_at, finished_at, NULL, http_status, code, error,
           response, node_id
      FROM outcome WHERE bucket = $1 AND tenant_id = $2 AND subject = $3
       AND started_at IS NOT NULL) AS execution
 WHERE attempt > $4 ORDER BY attempt LIMIT $5
