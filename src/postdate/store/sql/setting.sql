-- Run-time settings, read whole every two seconds.

-- name: setting_all
SELECT tenant_id, name, value, percent FROM setting

-- name: setting_list
SELECT name, value, percent, changed_at, changed_by FROM setting
 WHERE tenant_id = $1 ORDER BY name

-- name: setting_put
INSERT INTO setting (tenant_id, name, value, percent, changed_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, name) DO UPDATE SET value = excluded.value, percent = excluded.percent,
    changed_at = clock(), changed_by = excluded.changed_by

-- name: setting_delete
DELETE FROM setting WHERE tenant_id = $1 AND name = $2 RETURNING name

-- name: setting_find
SELECT value FROM setting WHERE tenant_id = 0 AND name = $1
