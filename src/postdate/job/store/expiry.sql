-- Expiry: the due jobs whose time is over.

-- name: expiry_look
-- Read the first due timers of a bucket's lane from an instant on, and name the expired jobs among
-- them. A lease that ran out is left to the claims, which count it; so is a job that was changed.
SELECT coalesce(array_agg(d.subject) FILTER (WHERE
           j.expires_at <= clock() OR j.effective_at < clock() - make_interval(secs =>
               coalesce((j.policy -> 'retry' ->> 'max_age_seconds')::float8, $6))), '{}')
           AS expired,
       count(*)::integer AS looked, max(d.due_at) AS last
  FROM (SELECT t.subject, t.due_at, t.revision, t.claimed_at FROM timer t
         WHERE t.bucket = $1 AND t.lane_id = $2 AND t.due_at >= $4 AND t.due_at <= clock()
           AND $3 <> ALL ((SELECT tenants_held())::integer[])
         ORDER BY t.due_at LIMIT $5) AS d
  LEFT JOIN LATERAL (
       SELECT * FROM job
        WHERE bucket = $1 AND tenant_id = $3 AND job_id = d.subject
          AND d.revision = 0 AND d.claimed_at IS NULL OFFSET 0) AS j ON true
