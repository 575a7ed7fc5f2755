-- Change sets.

-- name: change_set_insert
INSERT INTO change_set (bucket, tenant_id, change_set_id, note, created_by, changes, summary, steps)
VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, $7::text::jsonb, $8::text::jsonb)

-- name: change_set_forget
-- Drafts that were not applied within a week, and sets that ended three months ago.
DELETE FROM change_set
 WHERE tenant_id = $1 AND changed_at < clock() - CASE WHEN status = 'DRAFT' THEN interval '7 days'
                                                      ELSE interval '90 days' END

-- name: change_set_find
SELECT change_set_id, status, note, created_by, created_at, changed_at, changes::text,
       summary::text, steps::text
  FROM change_set WHERE bucket = $1 AND tenant_id = $2 AND change_set_id = $3

-- name: change_set_page
-- Without the steps: those of a hundred large sets are 100 MB. Their changes may be 40 MB: a page
-- ends before it would have more than $4 bytes of them, but it has one set in any case.
SELECT change_set_id, status, note, created_by, created_at, changed_at, changes, summary,
       number < many AS follows
  FROM (SELECT head.*, row_number() OVER newest AS number, count(*) OVER () AS many,
               sum(octet_length(changes) + octet_length(summary)) OVER newest AS bytes
          FROM (SELECT change_set_id, status, note, created_by, created_at, changed_at,
                       changes::text AS changes, summary::text AS summary
                  FROM change_set WHERE tenant_id = $1 AND change_set_id < $2
                 ORDER BY change_set_id DESC LIMIT $3 + 1) AS head
        WINDOW newest AS (ORDER BY change_set_id DESC)) AS sized
 WHERE number <= $3 AND (bytes <= $4 OR number = 1)
 ORDER BY change_set_id DESC

-- name: change_set_hold
-- Begin or continue a set: no row if another process works on it, or if it has another status.
-- A process that worked on it before finds another token. Nodes hold a set by the server's time,
-- because a test clock stands still.
UPDATE change_set SET status = $5, held_until = server_clock() + $6::interval,
       changed_at = clock(), token = token + 1
 WHERE bucket = $1 AND tenant_id = $2 AND change_set_id = $3 AND status = ANY ($4::text[])
   AND (held_until IS NULL OR held_until < server_clock())
RETURNING token

-- name: change_set_record
UPDATE change_set SET summary = $5::text::jsonb, steps = $6::text::jsonb, changed_at = clock(),
       held_until = server_clock() + $7::interval
 WHERE bucket = $1 AND tenant_id = $2 AND change_set_id = $3 AND token = $4
RETURNING token

-- name: change_set_let_go
UPDATE change_set SET status = $5, changed_at = clock(), held_until = NULL
 WHERE bucket = $1 AND tenant_id = $2 AND change_set_id = $3 AND token = $4
RETURNING token
