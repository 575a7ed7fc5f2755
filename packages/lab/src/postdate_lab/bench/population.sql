-- What the arm of growth configures, in bulk: as if somebody had set it up long ago.

-- name: population_tenants
INSERT INTO tenant (name) SELECT 'grown-' || n FROM generate_series(1, $1::integer) AS n
ON CONFLICT DO NOTHING

-- name: population_lanes
INSERT INTO lane (tenant_id, name, created_at, changed_at)
SELECT t.tenant_id, 'lane-' || n, clock() - interval '1 day', clock() - interval '1 day'
  FROM tenant t CROSS JOIN generate_series(1, $1::integer) AS n WHERE t.name LIKE 'grown-%'
ON CONFLICT DO NOTHING

-- name: population_settings
INSERT INTO setting (tenant_id, name, value, operator, changed_by)
SELECT t.tenant_id, wanted.name, '1000', false, 'bench'
  FROM tenant t
 CROSS JOIN (VALUES (1, 'payment.max_amount'), (2, 'payment.approval_above'),
                    (3, 'job.max_age_seconds')) AS wanted (number, name)
 WHERE t.name LIKE 'grown-%' AND wanted.number <= $1::integer
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

-- name: population_schedules
-- Once a year, so that the rule of each agrees with its timer, and nothing is due.
WITH made AS MATERIALIZED (
    SELECT bucket_of(drawn.schedule_id) AS bucket, t.tenant_id, drawn.schedule_id
      FROM tenant t
     CROSS JOIN (SELECT uuidv7() AS schedule_id
                   FROM generate_series(1, $1::integer) OFFSET 0) AS drawn
     WHERE t.name = 'grown-1'),
versions AS (
    INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, policies,
                                  template, actor, template_by, persons)
    SELECT bucket, tenant_id, schedule_id, 1, '', '{"timezone": "UTC", "cron": "0 0 1 1 *"}', '{}',
           '{"job": {"destination": {"type": "worker"}, "lane": "bench"}}', 'bench', 'bench',
           '{bench}'
      FROM made),
schedules AS (
    INSERT INTO schedule (bucket, tenant_id, schedule_id, handled)
    SELECT bucket, tenant_id, schedule_id, clock() FROM made)
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT bucket, tenant_id, $2, schedule_id,
       (date_trunc('year', clock() AT TIME ZONE 'UTC') + interval '1 year') AT TIME ZONE 'UTC'
  FROM made

-- name: population_nodes
INSERT INTO node (node_id, name, roles, version, started_at, seen_at)
SELECT gen_random_uuid(), 'gone', '{api,worker,settlement,publisher}', '1',
       clock() - interval '2 days', clock() - interval '1 day'
  FROM generate_series(1, $1::integer)

-- name: population_transactions
SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()
