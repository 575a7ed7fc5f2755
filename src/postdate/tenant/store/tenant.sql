-- Tenants: few, read by name.

-- name: tenant_create
INSERT INTO tenant (name, test) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING tenant_id

-- name: tenant_find
SELECT tenant_id FROM tenant WHERE name = $1

-- name: tenant_enabled
SELECT tenant_id, test FROM tenant WHERE name = $1 AND disabled_at IS NULL

-- name: tenant_disable
UPDATE tenant SET disabled_at = CASE WHEN $2 THEN (SELECT clock()) END
 WHERE tenant_id = $1 AND (disabled_at IS NULL) = $2
RETURNING tenant_id

-- name: tenant_list
SELECT name AS tenant, created_at, disabled_at, test FROM tenant
 WHERE name > $1 ORDER BY name LIMIT $2
