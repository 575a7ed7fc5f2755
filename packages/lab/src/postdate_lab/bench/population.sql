-- What the arm of growth configures, in bulk: as if somebody had set it up long ago.

-- name: population_tenants
INSERT INTO tenant (name) SELECT 'grown-' || n FROM generate_series(1, $1::integer) AS n
ON CONFLICT DO NOTHING

-- name: population_lanes
INSERT INTO lane (tenant_id, name, created_at, changed_at)
SELECT t.tenant_id, 'lane-' || n, clock() - interval '1 day', clock() - interval '1 day'
  FROM tenant t CROSS JOIN generate_series(1, $1::integer) AS n WHERE t.name LIKE 'grown-%'
ON CONFLICT DO NOTHING

-- name: population_destinations
INSERT INTO destination (tenant_id, name, type, url, secret)
SELECT t.tenant_id, 'hook-' || n, 'webhook', 'https://example.com/', '\x00'
  FROM tenant t CROSS JOIN generate_series(1, $1::integer) AS n WHERE t.name = 'grown-1'

-- name: population_subscriptions
INSERT INTO subscription (bucket, tenant_id, subscription_id, destination, types, patterns,
                          position)
SELECT n % 64, t.tenant_id, uuidv7(), '{"type": "webhook", "name": "hook-1"}', '{job.*}',
       '{job.%}', 0
  FROM tenant t CROSS JOIN generate_series(1, $1::integer) AS n WHERE t.name = 'grown-1'

-- name: population_tenant
SELECT tenant_id FROM tenant WHERE name = 'grown-1'

-- name: population_schedule_timers
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT bucket, tenant_id, $1, schedule_id, clock() + interval '1 month' FROM schedule

-- name: population_nodes
INSERT INTO node (node_id, name, roles, version, started_at, seen_at)
SELECT gen_random_uuid(), 'gone', '{api,worker,settlement,publisher}', '1',
       clock() - interval '2 days', clock() - interval '1 day'
  FROM generate_series(1, $1::integer)

-- name: population_transactions
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
