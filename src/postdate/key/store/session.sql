-- Sessions of the console, which any node may serve.

-- name: session_begin
INSERT INTO console_session (digest, tenant_id, key_id, secret, until)
VALUES ($1, $2, $3, $4, clock() + make_interval(secs => $5))

-- name: session_make_room
-- What has expired, and of this key the ones beyond $3 that were not used for longest.
DELETE FROM console_session
 WHERE until < clock()
    OR digest IN (SELECT digest FROM console_session WHERE tenant_id = $1 AND key_id = $2
                   ORDER BY until DESC OFFSET $3)

-- name: session_find
SELECT secret, extract(epoch FROM until - clock())::float8
  FROM console_session WHERE digest = $1 AND until > clock()

-- name: session_extend
UPDATE console_session SET until = clock() + make_interval(secs => $2) WHERE digest = $1

-- name: session_end
DELETE FROM console_session WHERE digest = $1
