-- What is due within a window, by minute: bounded walks along the index of timers. A row has the
-- minutes of one series at one of the places walked; the last one says how far the walk came.

-- name: due_exceeds
SELECT timers_ahead_exceed($1, $2, $3)

-- name: due_by_minute
SELECT lane_id, lane_id, place, minutes, walked, known
  FROM timers_by_minute($1, $2::smallint[], $3::integer[], $4, $5, $6)

-- name: due_by_destination
-- Due jobs by destination; only timers of the tenant's own lanes are walked.
WITH walked AS MATERIALIZED (
    SELECT head.place::integer, head.bucket, head.lane_id, head.subject, head.due_at,
           head.claimed_at
      FROM timer_walk($2, $3, ARRAY['-infinity'::timestamptz],
                      '00000000-0000-0000-0000-000000000000',
                      $5::timestamptz - interval '1 microsecond', NULL, $6) AS head
     LIMIT $7),
cut AS (SELECT max(due_at) AS at FROM walked GROUP BY place HAVING count(*) = $6),
seen AS MATERIALIZED (
    SELECT (SELECT count(*) FROM walked)::integer AS walked,
           coalesce((SELECT min(at) FROM cut), $5) AS known),
labelled AS MATERIALIZED (
    SELECT w.place, w.lane_id,
           coalesce(j.destination ->> 'name', split_part(j.destination ->> 'url', '?', 1),
                    j.destination ->> 'type') AS label,
           greatest(-1, floor(date_part('epoch', w.due_at - $4) / 60))::integer AS minute
      FROM walked w CROSS JOIN seen
      JOIN job j ON j.bucket = w.bucket AND j.tenant_id = $1 AND j.job_id = w.subject
     WHERE w.claimed_at IS NULL AND w.due_at <= seen.known)
SELECT label, lane_id, place, array_agg(minute), NULL::integer, NULL::timestamptz
  FROM labelled GROUP BY label, lane_id, place
 UNION ALL
SELECT NULL, NULL, NULL, NULL, seen.walked, seen.known FROM seen

-- name: due_by_tenant
-- The same over all tenants, for the operator: payments and jobs of each.
WITH walked AS MATERIALIZED (
    SELECT head.place::integer, head.lane_id, head.tenant_id, head.due_at, head.claimed_at
      FROM timer_walk($1, $2, ARRAY['-infinity'::timestamptz],
                      '00000000-0000-0000-0000-000000000000',
                      $4::timestamptz - interval '1 microsecond', NULL, $5) AS head
     LIMIT $6),
cut AS (SELECT max(due_at) AS at FROM walked GROUP BY place HAVING count(*) = $5),
seen AS MATERIALIZED (
    SELECT (SELECT count(*) FROM walked)::integer AS walked,
           coalesce((SELECT min(at) FROM cut), $4) AS known),
timed AS MATERIALIZED (
    SELECT w.tenant_id, w.lane_id, w.place,
           greatest(-1, floor(date_part('epoch', w.due_at - $3) / 60))::integer AS minute
      FROM walked w CROSS JOIN seen
     WHERE w.claimed_at IS NULL AND w.due_at <= seen.known)
SELECT tenant_id, lane_id, place, array_agg(minute), NULL::integer, NULL::timestamptz
  FROM timed GROUP BY tenant_id, lane_id, place
 UNION ALL
SELECT NULL, NULL, NULL, NULL, seen.walked, seen.known FROM seen
