-- Run-time settings: asked every two seconds whether any has changed, and then read whole.

-- name: setting_all
SELECT tenant_id, name, value, operator FROM setting

-- name: setting_fingerprint
-- Putting a value sets its time, and deleting one changes the count.
SELECT count(*), coalesce(sum(timestamp_hash_extended(changed_at AT TIME ZONE 'UTC', 0)), 0)::text
  FROM setting

-- name: setting_list
SELECT tenant_id, name, value, operator, changed_at, changed_by FROM setting
 WHERE tenant_id = $1 ORDER BY name, operator

-- name: setting_change
SELECT lock_named('setting_change', $1)

-- name: setting_put
INSERT INTO setting (tenant_id, name, value, operator, changed_by, changed_at)
VALUES ($1, $2, $3, $4, $5, clock())
ON CONFLICT (tenant_id, name, operator) DO UPDATE SET value = excluded.value,
    changed_at = excluded.changed_at, changed_by = excluded.changed_by

-- name: setting_delete
DELETE FROM setting WHERE tenant_id = $1 AND name = $2 AND operator = $3 RETURNING name

-- name: setting_find
SELECT value FROM setting WHERE tenant_id = 0 AND name = $1 AND operator

-- name: setting_allowed
-- What the operator has set for a tenant, else for all.
SELECT value FROM setting WHERE tenant_id IN ($1, 0) AND name = $2 AND operator
 ORDER BY tenant_id DESC LIMIT 1
