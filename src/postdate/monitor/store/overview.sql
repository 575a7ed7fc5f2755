-- What stands out right now: backlog, what waits for a person, what failed, what comes next.
--
-- A page that opens in the night must not slow the server: every query walks the head of an index
-- and stops counting at a limit. The numbers are exact up to it.

-- name: overview_backlog
-- For each lane what is due but not done, since when, and what waits for a person.
SELECT lane_id, sum(cardinality(late))::integer AS overdue, min(late[1]) AS oldest,
       sum(parked)::integer AS parked,
       bool_or(cardinality(late) >= $4 OR parked >= $4) AS capped
  FROM (SELECT wanted.lane_id,
               ARRAY(SELECT t.due_at FROM timer t
                      WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                        AND t.tenant_id = $1 AND t.due_at <= clock()
                      ORDER BY t.due_at LIMIT $4) AS late,
               (SELECT count(*) FROM (
                    SELECT 1 FROM timer t
                     WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                       AND t.tenant_id = $1 AND t.due_at = 'infinity'
                     LIMIT $4) AS head) AS parked
          FROM outbox_lock AS place
          JOIN unnest($2::smallint[], $3::integer[]) AS wanted (bucket, lane_id)
            ON wanted.bucket = place.bucket) AS found
 GROUP BY lane_id

-- name: overview_failed
-- Jobs and payments accepted since $2 that failed for good, by error and target: the newest $3 of
-- each bucket. A payment has no target; of a job that a worker claims it is the lane.
SELECT found.job IS NOT NULL AS job, found.code,
       coalesce(found.job ->> 'name', split_part(found.job ->> 'url', '?', 1),
                'worker') AS target,
       count(*)::integer AS many,
       count(*) FILTER (WHERE found.finished_at > clock() - interval '1 hour')::integer AS hour,
       max(found.finished_at) AS latest, bool_or(found.place >= $3) AS capped
  FROM outbox_lock AS buckets
 CROSS JOIN LATERAL (
       SELECT o.code, o.finished_at, row_number() OVER (ORDER BY o.subject DESC) AS place,
              (SELECT j.destination FROM job j WHERE j.bucket = o.bucket AND j.tenant_id = $1
                  AND j.job_id = o.subject) AS job
         FROM outcome o
        WHERE o.bucket = buckets.bucket AND o.tenant_id = $1 AND o.status = 'FAILED'
          AND o.status <> 'COMPLETED' AND o.subject >= $2
        ORDER BY o.subject DESC LIMIT $3) AS found
 GROUP BY 1, 2, 3 ORDER BY many DESC, code, target

-- name: overview_approvals
-- How many payments wait for approval, counted up to $2.
SELECT count(*)::integer
  FROM (SELECT FROM payment_approval WHERE tenant_id = $1 AND decision IS NULL LIMIT $2) AS waiting

-- name: overview_broken_off
-- Change sets that were begun, and on which no process works any more.
SELECT change_set_id, status, changed_at, jsonb_array_length(changes),
       (SELECT count(*) FROM jsonb_array_elements(summary) AS step (said)
         WHERE step.said ->> 'state' = 'done')
  FROM change_set
 WHERE tenant_id = $1 AND status IN ('APPLYING', 'UNDOING')
   AND (held_until IS NULL OR held_until < server_clock())
 ORDER BY changed_at LIMIT $2

-- name: overview_disabled
SELECT name, disabled_at, disabled_reason FROM destination
 WHERE tenant_id = $1 AND disabled_at IS NOT NULL ORDER BY disabled_at LIMIT $2

-- name: overview_paused
SELECT name, paused_at, paused_reason, paused_by FROM destination
 WHERE tenant_id = $1 AND paused_at IS NOT NULL AND disabled_at IS NULL
 ORDER BY paused_at LIMIT $2

-- name: overview_lagging
-- Subscriptions that are paused, fail, or have events to send and are too far behind.
SELECT s.subscription_id, s.destination, s.failures, s.failing_since, s.error, s.paused_at,
       s.paused_note, greatest(coalesce(p.position, 0) - s.position, 0)::bigint
  FROM subscription s
  LEFT JOIN (SELECT * FROM chain c WHERE c.bucket = tenant_bucket($1) AND c.tenant_id = $1
             OFFSET 0) AS p ON true
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.subscription_id
 WHERE s.tenant_id = $1
   AND (s.paused_at IS NOT NULL OR s.failures > 0
        OR (t.subject IS NOT NULL AND p.position - s.position >= $2))
 ORDER BY s.paused_at NULLS FIRST, s.failing_since, s.subscription_id LIMIT $3
