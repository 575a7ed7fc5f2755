-- Destinations by name, and the secrets that sign for a whole tenant. Secrets are envelopes.

-- name: destination_create
INSERT INTO destination (tenant_id, name, type, url, kind, max_running, rate_per_second, config,
                         secret)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (tenant_id, name) DO NOTHING

-- name: destination_open
SELECT destination_id, tenant_id, name, type, url, kind, config, secret,
       CASE WHEN previous_until > clock() THEN previous_secret END,
       max_running, rate_per_second, disabled_reason, paused_reason,
       extract(epoch FROM clock() - paused_at)::float8
  FROM destination WHERE tenant_id = $1 AND name = $2

-- name: destination_page
-- Its latest calls, which are another table, say later whether it fails.
SELECT name, type, CASE WHEN disabled_at IS NOT NULL THEN 'DISABLED'
                        WHEN paused_at IS NOT NULL THEN 'PAUSED' ELSE 'ACTIVE' END AS status,
       NULL AS failing_since, NULL AS trouble, url, kind, max_running, rate_per_second,
       disabled_at, disabled_reason, paused_at, paused_reason, paused_by,
       CASE WHEN previous_until > clock() THEN previous_until END AS previous_secret_until,
       created_at, changed_at
  FROM destination
 WHERE tenant_id = $1 AND name > $2 AND ($4::text IS NULL OR name = $4) ORDER BY name LIMIT $3

-- name: destination_count
SELECT count(*)::integer FROM destination WHERE tenant_id = $1

-- name: destination_change
-- Only what is given changes: null is a value too.
UPDATE destination SET
       (url, max_running, rate_per_second) =
       (SELECT made.url, made.max_running, made.rate_per_second
          FROM jsonb_populate_record(destination, $3::jsonb) AS made),
       changed_at = clock()
 WHERE tenant_id = $1 AND name = $2

-- name: destination_rotate
UPDATE destination SET secret = $3, previous_secret = secret,
       previous_until = clock() + make_interval(secs => $4), changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND type = 'webhook'

-- name: destination_disable
-- The first reason stays: what comes later follows from it.
UPDATE destination SET disabled_at = clock(), disabled_reason = $3, changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND disabled_at IS NULL

-- name: destination_enable
UPDATE destination SET disabled_at = NULL, disabled_reason = NULL, changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND disabled_at IS NOT NULL

-- name: destination_pause
-- The first pause counts; pausing again only changes the reason, and who wrote it.
UPDATE destination SET paused_at = coalesce(paused_at, clock()), paused_reason = $3,
       paused_by = $4, changed_at = clock()
 WHERE tenant_id = $1 AND name = $2
   AND (paused_reason, paused_by) IS DISTINCT FROM ($3, $4)

-- name: destination_resume
UPDATE destination SET paused_at = NULL, paused_reason = NULL, paused_by = NULL,
       changed_at = clock()
 WHERE tenant_id = $1 AND name = $2 AND paused_at IS NOT NULL

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
