-- Permits: slots and tokens of one scope, given under the lock of its row.

-- name: permit_lock
-- What is held is read by the next statement: only then does it see what the previous owner of the
-- lock wrote.
SELECT permit_lock($1, $2, $3, $4)

-- name: permit_others
SELECT coalesce(sum(slots), 0)::integer FROM permit
 WHERE bucket = $1 AND scope = $2 AND holder <> $3 AND expires_at > clock()

-- name: permit_spend
UPDATE permit_scope SET tokens = greatest(0, tokens - $3::integer) WHERE bucket = $1 AND scope = $2

-- name: permit_put
INSERT INTO permit (bucket, scope, holder, slots, expires_at)
VALUES ($1, $2, $3, $4, clock() + make_interval(secs => $5))
ON CONFLICT (bucket, scope, holder)
DO UPDATE SET slots = excluded.slots, expires_at = excluded.expires_at

-- name: permit_hold
INSERT INTO permit (bucket, scope, holder, slots, expires_at)
SELECT $1, $2, holder, 1, clock() + make_interval(secs => $4) FROM unnest($3::uuid[]) AS holder
ON CONFLICT (bucket, scope, holder)
DO UPDATE SET slots = excluded.slots, expires_at = excluded.expires_at

-- name: permit_drop
DELETE FROM permit WHERE bucket = $1 AND scope = $2 AND holder = ANY($3::uuid[])

-- name: permit_sweep
-- Those whose holders died; they count no more, and need not lie about.
DELETE FROM permit WHERE bucket = $1 AND scope = $2 AND expires_at <= clock()
