-- Keys of secrets: which ones have encrypted something here, never the keys themselves.

-- name: secret_lock
-- Two nodes that start together with keys of their own must not both be the first.
SELECT lock_named('secret_key', 0)

-- name: secret_keys
SELECT key_id FROM secret_key

-- name: secret_needed
-- The keys that the secrets of a tenant need: an envelope begins with a version and the id. Of each
-- kind of secret and each key some are named, so that many of one kind never hide another.
SELECT key_id, kind, name
  FROM (SELECT key_id, kind, name,
               row_number() OVER (PARTITION BY key_id, kind ORDER BY name) AS number
          FROM (SELECT DISTINCT kind, name,
                       ('x' || encode(substr(envelope, 2, 4), 'hex'))::bit(32)::bigint AS key_id
                  FROM (SELECT secret AS envelope, 'destination' AS kind, name FROM destination
                         WHERE tenant_id = $1 AND secret IS NOT NULL
                         UNION ALL
                        SELECT config, 'destination', name FROM destination
                         WHERE tenant_id = $1 AND config IS NOT NULL
                         UNION ALL
                        SELECT secret, 'url', '' FROM signing_secret WHERE tenant_id = $1
                         UNION ALL
                        SELECT envelope, 'payload', '' FROM payload_key
                         WHERE tenant_id = $1) AS held) AS needed) AS numbered
 WHERE number <= $2 ORDER BY kind, name, key_id

-- name: secret_key_add
INSERT INTO secret_key (key_id) VALUES ($1) ON CONFLICT DO NOTHING

-- name: secret_forget
DELETE FROM secret_key WHERE key_id <> $1

-- name: secret_destinations
SELECT destination_id, tenant_id, name, config, secret, previous_secret
  FROM destination WHERE destination_id > $1 ORDER BY destination_id LIMIT $2

-- name: secret_destination_replace
-- Only what was read is replaced: a secret rotated in between stays.
UPDATE destination SET config = $2, secret = $3, previous_secret = $4
 WHERE destination_id = $1 AND config IS NOT DISTINCT FROM $5 AND secret IS NOT DISTINCT FROM $6
   AND previous_secret IS NOT DISTINCT FROM $7

-- name: secret_signings
SELECT tenant_id, secret, previous_secret
  FROM signing_secret WHERE tenant_id > $1 ORDER BY tenant_id LIMIT $2

-- name: secret_signing_replace
UPDATE signing_secret SET secret = $2, previous_secret = $3
 WHERE tenant_id = $1 AND secret = $4 AND previous_secret IS NOT DISTINCT FROM $5
