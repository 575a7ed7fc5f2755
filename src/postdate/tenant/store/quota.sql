-- Quotas: how much of some tenants there is. Never asked on behalf of a request for work.

-- name: quota_pending
-- One bucket's timers of these tenants: payments lie in lanes 0, 3 and 4 (of tenants in
-- test mode in the lanes that stand for them), jobs from 16 on.
SELECT tenant_id, CASE WHEN lane_id >= 16 THEN 'jobs' ELSE 'payments' END AS kind, count(*) AS many
  FROM timer
 WHERE bucket = $1 AND tenant_id = ANY ($2::integer[])
   AND (lane_purpose(lane_id) IN (0, 3, 4) OR lane_id >= 16)
 GROUP BY 1, 2

-- name: quota_remember
-- For transactions of clients, which no node sees.
INSERT INTO tenant_pending (tenant_id, kind, pending)
SELECT * FROM unnest($1::integer[], $2::text[], $3::bigint[])
ON CONFLICT (tenant_id, kind) DO UPDATE SET pending = excluded.pending

-- name: quota_tenants
SELECT tenant_id FROM tenant

-- name: quota_accounts
SELECT count(*) FROM (
    SELECT 1 FROM outbox_lock AS buckets
      JOIN account a ON a.bucket = buckets.bucket AND a.tenant_id = $1 AND a.closed_at IS NULL
     LIMIT $2) AS found

-- name: quota_schedules
SELECT count(*) FROM (
    SELECT 1 FROM schedule WHERE tenant_id = $1 AND deleted_at IS NULL AND ended_at IS NULL
     LIMIT $2) AS found
