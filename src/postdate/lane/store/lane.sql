-- Lanes: a tenant's queues of jobs. A name has up to two rows (push, pull) that share every value.

-- name: lane_newest
-- The lanes that were changed last, at most so many.
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane ORDER BY changed_at DESC LIMIT $1

-- name: lane_clock
-- The time by which changes are stamped.
SELECT server_clock()

-- name: lane_changed
-- From an instant on, with an overlap for transactions that committed late; and, whenever they were
-- changed, those of some tenants. Rows never vanish.
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane WHERE changed_at >= $1::timestamptz - interval '10 seconds'
 UNION ALL
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane WHERE tenant_id = ANY ($2::integer[])

-- name: lane_of_tenants
-- All lanes of some tenants, and of those to whom some lanes belong.
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane
 WHERE tenant_id = ANY (ARRAY(SELECT unnest($1::integer[])
                               UNION SELECT l.tenant_id FROM lane l
                                WHERE l.lane_id = ANY ($2::integer[])))

-- name: lane_all
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane ORDER BY lane_id

-- name: lane_count_paused
SELECT count(*)::integer FROM lane WHERE paused_at IS NOT NULL AND NOT test

-- name: lane_ensure
-- The second kind of a name takes over what was set for the first.
INSERT INTO lane (tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
                  paused_note, paused_by, test)
SELECT wanted.tenant_id, wanted.name, wanted.kind, coalesce(twin.weight, 1),
       coalesce(twin.width, 8), twin.max_running, twin.rate_per_second, twin.paused_at,
       twin.paused_note, twin.paused_by, t.test
  FROM unnest($1::integer[], $2::text[], $3::text[]) AS wanted (tenant_id, name, kind)
  JOIN tenant t ON t.tenant_id = wanted.tenant_id
  LEFT JOIN lane twin ON twin.tenant_id = wanted.tenant_id AND twin.name = wanted.name
                     AND twin.kind <> wanted.kind
 ORDER BY 1, 2, 3
ON CONFLICT (tenant_id, name, kind) DO NOTHING

-- name: lane_find
SELECT l.lane_id, l.tenant_id, l.name, l.kind, l.weight, l.width, l.max_running, l.rate_per_second,
       l.paused_at, l.paused_note, l.paused_by, l.created_at, l.changed_at, l.test
  FROM unnest($1::integer[], $2::text[]) AS wanted (tenant_id, name)
  JOIN lane l USING (tenant_id, name)

-- name: lane_alone
SELECT lock_named('lane_change', $1)

-- name: lane_list
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
  FROM lane WHERE tenant_id = $1 AND name > $2 ORDER BY name, kind LIMIT $3

-- name: lane_count
SELECT count(DISTINCT name)::integer FROM lane WHERE tenant_id = $1

-- name: lane_change
-- Widening only: jobs already stored lie in the buckets of the old width.
UPDATE lane SET weight = $3, width = greatest(width, $4), max_running = $5, rate_per_second = $6,
       changed_at = server_clock()
 WHERE tenant_id = $1 AND name = $2
RETURNING lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test

-- name: lane_pause
-- The first pause counts; pausing again only changes the note, and who wrote it.
UPDATE lane SET paused_at = CASE WHEN $3 THEN coalesce(paused_at, (SELECT clock())) END,
       paused_note = CASE WHEN $3 THEN $4::text END,
       paused_by = CASE WHEN $3 THEN $5::text END, changed_at = server_clock()
 WHERE tenant_id = $1 AND name = $2
RETURNING lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test
