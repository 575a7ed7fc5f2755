-- Destinations by name, and the secrets that sign for a whole tenant. Secrets are envelopes.

-- name: destination_create
INSERT INTO destination (tenant_id, name, type, url, kind, config, secret, max_running,
                         rate_per_second)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING destination_id, tenant_id, name, type, url, kind, config, secret, previous_secret,
          previous_until, max_running, rate_per_second, disabled_at, disabled_reason, created_at,
          changed_at

-- name: destination_find
SELECT destination_id, tenant_id, name, type, url, kind, config, secret,
       CASE WHEN previous_until > clock() THEN previous_secret END,
       CASE WHEN previous_until > clock() THEN previous_until END,
       max_running, rate_per_second, disabled_at, disabled_reason, created_at, changed_at
  FROM destination WHERE tenant_id = $1 AND name = $2

-- name: destination_page
SELECT destination_id, tenant_id, name, type, url, kind, config, secret,
       CASE WHEN previous_until > clock() THEN previous_secret END,
       CASE WHEN previous_until > clock() THEN previous_until END,
       max_running, rate_per_second, disabled_at, disabled_reason, created_at, changed_at
  FROM destination WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3

-- name: destination_count
SELECT count(*)::integer FROM destination WHERE tenant_id = $1

-- name: destination_change
-- Each value comes with a flag that says whether it is meant: null is a value too.
UPDATE destination SET
       url = CASE WHEN $3 THEN $4 ELSE url END,
       max_running = CASE WHEN $5 THEN $6 ELSE max_running END,
       rate_per_second = CASE WHEN $7 THEN $8 ELSE rate_per_second END,
       changed_at = clock()
 WHERE tenant_id = $1 AND name = $2
RETURNING destination_id, tenant_id, name, type, url, kind, config, secret, previous_secret,
          previous_until, max_running, rate_per_second, disabled_at, disabled_reason, created_at,
          changed_at

-- name: destination_rotate
UPDATE destination SET secret = $3, previous_secret = secret,
       previous_until = clock() + make_interval(secs => $4), changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND type = 'webhook'
RETURNING destination_id, tenant_id, name, type, url, kind, config, secret, previous_secret,
          previous_until, max_running, rate_per_second, disabled_at, disabled_reason, created_at,
          changed_at

-- name: destination_disable
-- The first reason stays: what comes later follows from it.
UPDATE destination SET disabled_at = clock(), disabled_reason = $3, changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND disabled_at IS NULL

-- name: destination_enable
UPDATE destination SET disabled_at = NULL, disabled_reason = NULL, changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND disabled_at IS NOT NULL

-- name: destination_delete
DELETE FROM destination WHERE tenant_id = $1 AND name = $2

-- name: destination_signing_find
SELECT secret, CASE WHEN previous_until > clock() THEN previous_secret END,
       CASE WHEN previous_until > clock() THEN previous_until END
  FROM signing_secret WHERE tenant_id = $1

-- name: destination_signing_insert
INSERT INTO signing_secret (tenant_id, secret) VALUES ($1, $2) ON CONFLICT (tenant_id) DO NOTHING

-- name: destination_signing_rotate
UPDATE signing_secret SET secret = $2, previous_secret = secret,
       previous_until = clock() + make_interval(secs => $3), changed_at = clock()
 WHERE tenant_id = $1
RETURNING previous_until
