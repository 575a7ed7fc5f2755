-- The keys of tenants' payloads, each in an envelope of the server's.

-- name: payload_encryption_find
SELECT envelope FROM payload_key WHERE tenant_id = $1

-- name: payload_encryption_create
INSERT INTO payload_key (tenant_id, envelope) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: payload_encryption_all
SELECT tenant_id, envelope FROM payload_key WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2

-- name: payload_encryption_replace
UPDATE payload_key SET envelope = $2 WHERE tenant_id = $1 AND envelope = $3
