-- What stands out right now: backlog, what waits for a person, what failed, what comes next.
--
-- A page that opens in the night must not slow the server: every query walks the head of an index
-- and stops counting at a limit. The numbers are exact up to it.

-- name: overview_backlog
-- For each lane what is due but not done, since when, and what waits for a person.
SELECT wanted.lane_id, sum(late.many)::integer AS overdue, min(late.oldest) AS oldest,
       sum(parked.many)::integer AS parked
  FROM unnest($2::smallint[], $3::integer[]) AS wanted (bucket, lane_id)
 CROSS JOIN LATERAL (
       SELECT count(*) AS many, min(head.due_at) AS oldest FROM (
           SELECT t.due_at FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id AND t.tenant_id = $1
              AND t.due_at <= clock()
            ORDER BY t.due_at LIMIT $4) AS head) AS late
 CROSS JOIN LATERAL (
       SELECT count(*) AS many FROM (
           SELECT FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id AND t.tenant_id = $1
              AND t.due_at = 'infinity'
            LIMIT $4) AS head) AS parked
 GROUP BY wanted.lane_id

-- name: overview_due
SELECT slot, place, payments, many, walked, known
  FROM due_ahead($1, $2::smallint[], $3::integer[], $4, $5, $6, $7)

-- name: overview_failed
-- Jobs and payments accepted since $2 that failed for good.
SELECT count(*) FILTER (WHERE found.job)::integer AS jobs,
       count(*) FILTER (WHERE NOT found.job)::integer AS payments
  FROM generate_series(0, 63) AS buckets (bucket)
 CROSS JOIN LATERAL (
       SELECT EXISTS (SELECT FROM job j WHERE j.bucket = buckets.bucket AND j.tenant_id = $1
                         AND j.job_id = o.subject) AS job
         FROM outcome o
        WHERE o.bucket = buckets.bucket AND o.tenant_id = $1 AND o.status = 'FAILED'
          AND o.status <> 'COMPLETED' AND o.subject >= $2
        ORDER BY o.subject DESC LIMIT $3) AS found
