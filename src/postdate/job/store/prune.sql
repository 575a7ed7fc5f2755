-- Old jobs are removed by functions of the owner, in small sets: facts change for nobody else.

-- name: prune_tenants_of_jobs
-- The tenants after one that have jobs older than a day in a bucket, from one such tenant to the
-- next. A retention is a day at least.
WITH RECURSIVE found (tenant_id, number) AS (
    SELECT (SELECT j.tenant_id FROM job j
             WHERE j.bucket = $1 AND j.tenant_id > $2
               AND j.job_id < uuid_floor(clock() - interval '1 day')
             ORDER BY j.tenant_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT j.tenant_id FROM job j
             WHERE j.bucket = $1 AND j.tenant_id > last.tenant_id
               AND j.job_id < uuid_floor(clock() - interval '1 day')
             ORDER BY j.tenant_id LIMIT 1), last.number + 1
      FROM found last WHERE last.tenant_id IS NOT NULL AND last.number < $3)
SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL ORDER BY tenant_id

-- name: prune_tenants_of_keys
-- The next tenants that have keys of one scope.
WITH RECURSIVE found (tenant_id, number) AS (
    SELECT (SELECT i.tenant_id FROM idempotency i
             WHERE i.bucket = $1 AND i.scope = $4 AND i.tenant_id > $2
             ORDER BY i.tenant_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT i.tenant_id FROM idempotency i
             WHERE i.bucket = $1 AND i.scope = $4 AND i.tenant_id > last.tenant_id
             ORDER BY i.tenant_id LIMIT 1), last.number + 1
      FROM found last WHERE last.tenant_id IS NOT NULL AND last.number < $3)
SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL ORDER BY tenant_id

-- name: prune_jobs
SELECT removed, last FROM job_prune($1, $2, clock() - make_interval(days => $3), $4, $5)

-- name: prune_keys
SELECT removed, last FROM idempotency_prune($1, $2, $3, clock() - make_interval(days => $4), $5, $6)

-- name: prune_failed
SELECT job_purge($1, $2, $3::uuid[])
