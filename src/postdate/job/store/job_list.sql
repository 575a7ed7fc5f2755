-- Which jobs a page shows. Every list walks a bounded part of each bucket and says how far it came.
--
-- A page must be cheap whatever the filter is, and whatever lies in the table. So each query walks
-- at most `scan` rows of each bucket in the order of the list. Beyond the nearest end of a walk
-- (the edge) rows of that bucket might be missing: the page stops there, perhaps before it is full,
-- and the next one goes on from the edge.

-- name: job_list_open
-- PENDING, READY, RUNNING, UNKNOWN: by their timers, the soonest first. 'infinity' is UNKNOWN. The
-- lower bounds are one comparison of rows: beside a second one, the walk might begin at the wrong
-- one of them, and pass over all that lies before the other.
WITH bound AS (
    SELECT greatest($5::text::timestamptz, $7::text::timestamptz, soonest) AS due_at,
           CASE WHEN $7::text::timestamptz >= greatest($5::text::timestamptz, soonest) THEN $8
                ELSE '00000000-0000-0000-0000-000000000000'::uuid END AS subject
      FROM (SELECT CASE $4 WHEN 'READY' THEN '-infinity' WHEN 'UNKNOWN' THEN 'infinity'
                           ELSE clock() END::timestamptz AS soonest) AS status),
scanned AS (
    SELECT found.bucket, found.lane_id, found.subject, found.due_at, found.claimed_at
      FROM bound CROSS JOIN LATERAL timer_walk($2, $3, ARRAY[bound.due_at], bound.subject,
               least($6::text::timestamptz, CASE $4 WHEN 'READY' THEN clock() ELSE 'infinity' END),
               $1, $9) AS found),
edge AS (
    SELECT due_at, subject FROM (
        SELECT DISTINCT ON (bucket, lane_id) due_at, subject,
               count(*) OVER (PARTITION BY bucket, lane_id) AS walked
          FROM scanned ORDER BY bucket, lane_id, due_at DESC, subject DESC) AS ends
     WHERE walked = $9 ORDER BY due_at, subject LIMIT 1),
named AS (
    SELECT j.job_id FROM scanned s
      JOIN job j ON j.bucket = s.bucket AND j.tenant_id = $1 AND j.job_id = s.subject
     WHERE num_nonnulls($11::text, $12::text, $13::text) > 0 AND j.bucket = ANY ($2::smallint[])
       AND job_finds($11, $12, $13, j.job_id, j.description, j.metadata, j.destination, j.key)),
shown AS (
    SELECT s.subject, s.due_at FROM scanned s
     WHERE CASE $4 WHEN 'RUNNING' THEN s.claimed_at IS NOT NULL AND s.due_at < 'infinity'
                   WHEN 'PENDING' THEN s.claimed_at IS NULL AND s.due_at < 'infinity'
                   ELSE true END
       AND NOT EXISTS (SELECT FROM edge e WHERE (s.due_at, s.subject) > (e.due_at, e.subject))
       AND (num_nonnulls($11::text, $12::text, $13::text) = 0
            OR s.subject IN (SELECT n.job_id FROM named n))
     ORDER BY s.due_at, s.subject LIMIT $10)
SELECT subject, due_at::text, false AS is_edge FROM shown
 UNION ALL
SELECT subject, due_at::text, true FROM edge

-- name: job_list_ended
-- FAILED and CANCELLED, the newest job first; payments that ended so are passed over. The walk
-- needs nothing but the index; jobs and outcomes are looked up in the order of the list, one by
-- one, until the page is full.
WITH scanned AS (
    SELECT wanted.bucket, found.*
      FROM outbox_lock AS wanted
     CROSS JOIN LATERAL (
           SELECT o.subject FROM outcome o
            WHERE o.bucket = wanted.bucket AND o.tenant_id = $1 AND o.status = $4
              AND o.status <> 'COMPLETED' AND o.subject < $7
            ORDER BY o.subject DESC LIMIT $8) AS found
     WHERE wanted.bucket = ANY ($2::smallint[])),
edge AS (
    SELECT subject FROM (
        SELECT DISTINCT ON (bucket) subject, count(*) OVER (PARTITION BY bucket) AS walked
          FROM scanned ORDER BY bucket, subject) AS ends
     WHERE walked = $8 ORDER BY subject DESC LIMIT 1),
shown AS (
    SELECT near.subject
      FROM (SELECT s.bucket, s.subject FROM scanned s
             WHERE NOT EXISTS (SELECT FROM edge e WHERE s.subject < e.subject)
             ORDER BY s.subject DESC OFFSET 0) AS near
     CROSS JOIN LATERAL job_ended_find(near.bucket, $1, near.subject, $3, $5::text::timestamptz,
                                       $6::text::timestamptz, $10, $11, $12,
                                       $13)
     ORDER BY near.subject DESC LIMIT $9)
SELECT subject, false AS is_edge FROM shown UNION ALL SELECT subject, true FROM edge

-- name: job_list_recent
-- All jobs, or the completed ones, the newest first.
WITH scanned AS (
    SELECT wanted.bucket, found.*
      FROM outbox_lock AS wanted
     CROSS JOIN LATERAL (
           SELECT j.job_id AS subject, j.due_at,
                  CASE WHEN $3::integer[] IS NOT NULL
                       THEN job_lane(j.bucket, j.job_id, j.lane_id) END AS lane_id,
                  job_finds($10, $11, $12, j.job_id, j.description, j.metadata,
                            j.destination, j.key) AS named,
                  CASE WHEN $4::text IS NOT NULL THEN (
                       SELECT o.status FROM outcome o
                        WHERE o.bucket = j.bucket AND o.subject = j.job_id) END AS status
             FROM job j
            WHERE j.bucket = wanted.bucket AND j.tenant_id = $1 AND j.job_id < $7
            ORDER BY j.job_id DESC LIMIT $8) AS found
     WHERE wanted.bucket = ANY ($2::smallint[])),
edge AS (
    SELECT subject FROM (
        SELECT DISTINCT ON (bucket) subject, count(*) OVER (PARTITION BY bucket) AS walked
          FROM scanned ORDER BY bucket, subject) AS ends
     WHERE walked = $8 ORDER BY subject DESC LIMIT 1),
shown AS (
    SELECT s.subject FROM scanned s
     WHERE ($3::integer[] IS NULL OR s.lane_id = ANY($3)) AND s.named
       AND s.due_at BETWEEN $5::text::timestamptz AND $6::text::timestamptz
       AND NOT EXISTS (SELECT FROM edge e WHERE s.subject < e.subject)
       AND ($4::text IS NULL OR s.status = $4)
     ORDER BY s.subject DESC LIMIT $9)
SELECT subject, false AS is_edge FROM shown UNION ALL SELECT subject, true FROM edge

-- name: job_list_schedule
-- The jobs of one schedule, the newest first, in any status.
WITH scanned AS (
    SELECT wanted.bucket, found.*
      FROM outbox_lock AS wanted
     CROSS JOIN LATERAL (
           SELECT j.job_id AS subject, j.due_at,
                  CASE WHEN $3::integer[] IS NOT NULL
                       THEN job_lane(j.bucket, j.job_id, j.lane_id) END AS lane_id,
                  job_finds($12, $13, $14, j.job_id, j.description, j.metadata,
                            j.destination, j.key) AS named FROM job j
            WHERE j.bucket = wanted.bucket AND j.schedule_id = $10 AND j.job_id < $7
              AND j.tenant_id = $1
            ORDER BY j.job_id DESC LIMIT $8) AS found
     WHERE wanted.bucket = ANY ($2::smallint[])),
edge AS (
    SELECT subject FROM (
        SELECT DISTINCT ON (bucket) subject, count(*) OVER (PARTITION BY bucket) AS walked
          FROM scanned ORDER BY bucket, subject) AS ends
     WHERE walked = $8 ORDER BY subject DESC LIMIT 1),
shown AS (
    SELECT near.subject
      FROM (SELECT s.bucket, s.subject FROM scanned s
             WHERE ($3::integer[] IS NULL OR s.lane_id = ANY($3)) AND s.named
               AND s.due_at BETWEEN $5::text::timestamptz AND $6::text::timestamptz
               AND NOT EXISTS (SELECT FROM edge e WHERE s.subject < e.subject)
             ORDER BY s.subject DESC OFFSET 0) AS near
      LEFT JOIN LATERAL job_status_find(
           near.bucket, near.subject, $4::text IS NOT NULL OR $11::text IS NOT NULL) AS now ON true
     WHERE ($4 IS NULL OR now.status = $4) AND ($11 IS NULL OR now.code = $11)
     ORDER BY near.subject DESC LIMIT $9)
SELECT subject, false AS is_edge FROM shown UNION ALL SELECT subject, true FROM edge

-- name: job_list_unique
-- The jobs under one unique key, the newest first, in any status; of one schedule if it is given.
-- The order names the key, so that no walk over all jobs of a tenant can serve it.
WITH scanned AS (
    SELECT wanted.bucket, found.*
      FROM outbox_lock AS wanted
     CROSS JOIN LATERAL (
           SELECT j.job_id AS subject, j.due_at,
                  CASE WHEN $3::integer[] IS NOT NULL
                       THEN job_lane(j.bucket, j.job_id, j.lane_id) END AS lane_id,
                  job_finds($12, $13, $14, j.job_id, j.description, j.metadata,
                            j.destination, j.key)
                  AND ($15::uuid IS NULL OR j.schedule_id = $15) AS named FROM job j
            WHERE j.bucket = wanted.bucket AND j.tenant_id = $1 AND j.unique_by IS NOT NULL
              AND (j.unique_by ->> 'key', j.job_id) < ($10, $7) AND j.unique_by ->> 'key' >= $10
            ORDER BY j.unique_by ->> 'key' DESC, j.job_id DESC LIMIT $8) AS found
     WHERE wanted.bucket = ANY ($2::smallint[])),
edge AS (
    SELECT subject FROM (
        SELECT DISTINCT ON (bucket) subject, count(*) OVER (PARTITION BY bucket) AS walked
          FROM scanned ORDER BY bucket, subject) AS ends
     WHERE walked = $8 ORDER BY subject DESC LIMIT 1),
shown AS (
    SELECT near.subject
      FROM (SELECT s.bucket, s.subject FROM scanned s
             WHERE ($3::integer[] IS NULL OR s.lane_id = ANY($3)) AND s.named
               AND s.due_at BETWEEN $5::text::timestamptz AND $6::text::timestamptz
               AND NOT EXISTS (SELECT FROM edge e WHERE s.subject < e.subject)
             ORDER BY s.subject DESC OFFSET 0) AS near
      LEFT JOIN LATERAL job_status_find(
           near.bucket, near.subject, $4::text IS NOT NULL OR $11::text IS NOT NULL) AS now ON true
     WHERE ($4 IS NULL OR now.status = $4) AND ($11 IS NULL OR now.code = $11)
     ORDER BY near.subject DESC LIMIT $9)
SELECT subject, false AS is_edge FROM shown UNION ALL SELECT subject, true FROM edge

-- name: job_list_count
-- How many jobs of each lane are ready, pending, running or in doubt, counted only so far: from the
-- soonest on, up to a limit in each bucket. Jobs in doubt lie at infinity and are counted apart.
SELECT lane_id, sum(walked[2])::integer AS ready, sum(walked[3])::integer AS pending,
       sum(walked[4])::integer AS running, sum(in_doubt)::integer AS in_doubt,
       bool_or(walked[1] >= $3 OR in_doubt >= $3) AS capped
  FROM (SELECT wanted.lane_id,
               (SELECT ARRAY[count(*), count(*) FILTER (WHERE due_at <= clock()),
                             count(*) FILTER (WHERE due_at > clock() AND claimed_at IS NULL),
                             count(*) FILTER (WHERE due_at > clock() AND claimed_at IS NOT NULL)]
                  FROM (SELECT t.due_at, t.claimed_at FROM timer t
                         WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                           AND t.due_at < 'infinity'
                         ORDER BY t.due_at LIMIT $3) AS soonest) AS walked,
               (SELECT count(*)
                  FROM (SELECT 1 FROM timer t
                         WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
                           AND t.due_at = 'infinity' LIMIT $3) AS parked) AS in_doubt
          FROM outbox_lock AS place
          JOIN unnest($1::smallint[], $2::integer[]) AS wanted (bucket, lane_id)
            ON wanted.bucket = place.bucket) AS counted
 GROUP BY lane_id

-- name: job_list_waiting
-- How many jobs of each target wait: ready or pending, counted only so far as job_list_count. The
-- target is a destination's name, or a URL without its query. `capped` is that of all together.
WITH walked AS (
    SELECT found.*, row_number() OVER (PARTITION BY found.bucket, found.lane_id) >= $4 AS capped
      FROM outbox_lock AS place
      JOIN unnest($2::smallint[], $3::integer[]) AS wanted (bucket, lane_id)
        ON wanted.bucket = place.bucket
     CROSS JOIN LATERAL (
           SELECT t.bucket, t.lane_id, t.subject, t.due_at, t.claimed_at FROM timer t
            WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id AND t.tenant_id = $1
              AND t.due_at < 'infinity'
            ORDER BY t.due_at LIMIT $4) AS found)
SELECT coalesce(j.destination ->> 'name', split_part(j.destination ->> 'url', '?', 1)) AS target,
       count(*) FILTER (WHERE w.due_at <= clock())::integer AS ready,
       count(*) FILTER (WHERE w.due_at > clock() AND w.claimed_at IS NULL)::integer AS pending,
       (SELECT bool_or(all_walked.capped) FROM walked all_walked) AS capped
  FROM walked w
  JOIN job j ON j.bucket = w.bucket AND j.tenant_id = $1 AND j.job_id = w.subject
 WHERE j.destination ->> 'type' <> 'worker'
 GROUP BY 1
