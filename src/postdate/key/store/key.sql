-- API keys, looked up by the hash of their secret. They last by the server's clock, whatever the
-- test clock of their tenant shows.

-- name: key_create
INSERT INTO api_key (key_id, tenant_id, hash, hint, note, scopes, accounts, max_amount, expires_at,
                     persons)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (hash) DO NOTHING

-- name: key_find_by_secret
SELECT k.key_id, k.tenant_id, t.name AS tenant, k.scopes, k.accounts, k.max_amount,
       k.revoked_at IS NOT NULL OR t.disabled_at IS NOT NULL
           OR coalesce(k.expires_at <= server_clock(), false) AS ended,
       extract(epoch FROM k.expires_at - server_clock())::float8 AS seconds_left, k.persons,
       t.test
  FROM api_key k JOIN tenant t USING (tenant_id)
 WHERE k.hash = $1

-- name: key_alive
SELECT k.revoked_at IS NULL AND t.disabled_at IS NULL
       AND coalesce(k.expires_at > server_clock(), true)
  FROM api_key k JOIN tenant t USING (tenant_id) WHERE k.key_id = $1

-- name: key_list
SELECT key_id, hint, note, scopes, accounts, max_amount, created_at, expires_at, revoked_at,
       last_used_at, persons
  FROM api_key WHERE tenant_id = $1 AND key_id > $2 ORDER BY key_id LIMIT $3

-- name: key_revoke
UPDATE api_key SET revoked_at = (SELECT server_clock())
 WHERE tenant_id = $1 AND key_id = $2 AND revoked_at IS NULL RETURNING revoked_at

-- name: key_revoked
SELECT revoked_at FROM api_key WHERE tenant_id = $1 AND key_id = $2

-- name: key_find
SELECT note, scopes, accounts, max_amount, expires_at,
       revoked_at IS NOT NULL OR coalesce(expires_at <= server_clock(), false) AS ended, persons
  FROM api_key WHERE tenant_id = $1 AND key_id = $2

-- name: key_count
SELECT count(*) FROM api_key
 WHERE tenant_id = $1 AND revoked_at IS NULL AND coalesce(expires_at > server_clock(), true)

-- name: key_end
UPDATE api_key
   SET expires_at = least(coalesce(expires_at, 'infinity'),
                          server_clock() + make_interval(secs => $3))
 WHERE tenant_id = $1 AND key_id = $2 RETURNING expires_at

-- name: key_used
UPDATE api_key SET last_used_at = server_clock() WHERE key_id = ANY($1)
