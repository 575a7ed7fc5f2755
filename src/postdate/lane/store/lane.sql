-- Lanes: a tenant's queues of jobs. A name has a row for each kind (push, pull), priority, and for
-- jobs with a key; they share every other value. `lane_view` lists what a node remembers of a lane.

-- name: lane_newest
-- The lanes that were changed last.
SELECT * FROM lane_view ORDER BY changed_at DESC LIMIT $1

-- name: lane_clock
-- The time by which changes are stamped.
SELECT server_clock()

-- name: lane_changed
-- From an instant on, with an overlap for transactions that committed late; and, whenever they were
-- changed, the lanes of some tenants. Rows never vanish.
SELECT * FROM lane_view WHERE changed_at >= $1::timestamptz - interval '10 seconds'
 UNION ALL
SELECT * FROM lane_view WHERE tenant_id = ANY ($2::integer[])

-- name: lane_of_tenants
-- All lanes of some tenants, and of the tenants to whom some lanes belong.
SELECT * FROM lane_view
 WHERE tenant_id = ANY (ARRAY(SELECT unnest($1::integer[])
                               UNION SELECT l.tenant_id FROM lane l
                                WHERE l.lane_id = ANY ($2::integer[])))

-- name: lane_all
SELECT * FROM lane_view ORDER BY lane_id

-- name: lane_count_paused
SELECT count(*)::integer FROM lane WHERE paused_at IS NOT NULL AND NOT test

-- name: lane_ensure
-- A further row of a name takes over what was set for the others.
INSERT INTO lane (tenant_id, name, kind, priority, keyed, weight, width, max_running,
                  rate_per_second, per_key, paused_at, paused_note, paused_by, test)
SELECT wanted.tenant_id, wanted.name, wanted.kind, wanted.priority, wanted.keyed,
       coalesce(twin.weight, 1), coalesce(twin.width, 8), twin.max_running, twin.rate_per_second,
       twin.per_key, twin.paused_at, twin.paused_note, twin.paused_by, t.test
  FROM unnest($1::integer[], $2::text[], $3::text[], $4::smallint[], $5::boolean[])
       AS wanted (tenant_id, name, kind, priority, keyed)
  JOIN tenant t ON t.tenant_id = wanted.tenant_id
  LEFT JOIN LATERAL (
       SELECT l.* FROM lane l
        WHERE l.tenant_id = wanted.tenant_id AND l.name = wanted.name LIMIT 1) AS twin ON true
 ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (tenant_id, name, kind, priority, keyed) DO NOTHING

-- name: lane_find
SELECT l.*
  FROM unnest($1::integer[], $2::text[]) AS wanted (tenant_id, name)
  JOIN lane_view l ON l.tenant_id = wanted.tenant_id AND l.name = wanted.name

-- name: lane_alone
SELECT lock_named('lane_change', $1)

-- name: lane_list
SELECT * FROM lane_view
 WHERE tenant_id = $1 AND name IN (
       SELECT DISTINCT l.name FROM lane l WHERE l.tenant_id = $1 AND l.name > $2
        ORDER BY l.name LIMIT $3)
 ORDER BY name, lane_id

-- name: lane_count
SELECT count(DISTINCT name)::integer FROM lane WHERE tenant_id = $1

-- name: lane_change
-- Widening only: jobs already stored lie in the buckets of the old width.
UPDATE lane SET weight = $3, width = greatest(width, $4), max_running = $5, rate_per_second = $6,
       per_key = $7::jsonb, changed_at = server_clock()
 WHERE tenant_id = $1 AND name = $2

-- name: lane_pause
-- The first pause counts; pausing again only changes the note, and who wrote it.
UPDATE lane SET paused_at = CASE WHEN $3 THEN coalesce(paused_at, (SELECT clock())) END,
       paused_note = CASE WHEN $3 THEN $4::text END,
       paused_by = CASE WHEN $3 THEN $5::text END, changed_at = server_clock()
 WHERE tenant_id = $1 AND name = $2
