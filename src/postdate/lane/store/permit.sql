-- Permits: slots and tokens of one scope, given under the lock of its row.

-- name: permit_lock
-- What is held is read by the next statement: only then does it see what the previous owner of the
-- lock wrote.
SELECT permit_lock($1, $2, $3, $4)

-- name: permit_others
-- Slots that have run out count as long as their holder is a node that lives: it could not renew
-- them, because the row is locked, and runs what it has started.
SELECT coalesce(sum(p.slots), 0)::integer FROM permit p
 WHERE p.bucket = $1 AND p.scope = $2 AND p.holder <> $3
   AND (p.expires_at > clock() OR EXISTS (SELECT FROM node n WHERE n.node_id = p.holder
            AND n.seen_at > clock() - make_interval(secs => $4)))

-- name: permit_spend
-- Tokens below zero are starts that a node was promised for the next second.
UPDATE permit_scope SET tokens = tokens - $3::integer WHERE bucket = $1 AND scope = $2

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
-- Slots whose holders died; they count no more, and need not lie about. A locked row is skipped:
-- a node that waited here would not renew its own.
DELETE FROM permit WHERE bucket = $1 AND scope = $2 AND holder IN (
    SELECT p.holder FROM permit p
     WHERE p.bucket = $1 AND p.scope = $2 AND p.expires_at <= clock()
       AND NOT EXISTS (SELECT FROM node n WHERE n.node_id = p.holder
            AND n.seen_at > clock() - make_interval(secs => $3))
       FOR UPDATE SKIP LOCKED)

-- name: permit_waits
SELECT * FROM permit_waits($1, $2, $3, $4, $5)
