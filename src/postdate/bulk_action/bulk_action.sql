-- Bulk actions. They go by the server's time: a test clock stands still.

-- name: bulk_action_forget
-- Bulk actions that ended three months ago, with their items.
DELETE FROM bulk_action
 WHERE tenant_id = $1 AND ended_at < server_clock() - interval '90 days'

-- name: bulk_action_count_open
SELECT count(*) FROM bulk_action WHERE tenant_id = $1 AND ended_at IS NULL

-- name: bulk_action_insert
INSERT INTO bulk_action (bucket, tenant_id, bulk_action_id, operation, terms, actor, origin,
                         created_by, per_second, total, starts_at, next_at)
VALUES ($1, $2, $3, $4, $5::text::jsonb, $6::text::jsonb, $7::text::jsonb, $8, $9, $10,
        server_clock() + $11::interval, server_clock() + $11::interval)

-- name: bulk_action_item_insert
INSERT INTO bulk_item (bucket, tenant_id, bulk_action_id, position, item_id, seen)
SELECT $1, $2, $3, number - 1, item_id, seen
  FROM unnest($4::uuid[], $5::text[]) WITH ORDINALITY AS given (item_id, seen, number)

-- name: bulk_action_find
SELECT bulk_action_id, operation, terms::text, total, position, done, skipped::text, per_second,
       waiting_for, created_by, created_at, starts_at, changed_at, ended_at, stopped_by
  FROM bulk_action WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3

-- name: bulk_action_page
SELECT bulk_action_id, operation, terms::text, total, position, done, skipped::text, per_second,
       waiting_for, created_by, created_at, starts_at, changed_at, ended_at, stopped_by
  FROM bulk_action
 WHERE tenant_id = $1 AND bulk_action_id < $2 AND operation = ANY ($3::text[])
   AND ($4::text IS NULL OR created_by = $4)
 ORDER BY bulk_action_id DESC LIMIT $5

-- name: bulk_action_open
SELECT bulk_action_id, operation, terms::text, total, position, done, skipped::text, per_second,
       waiting_for, created_by, created_at, starts_at, changed_at, ended_at, stopped_by
  FROM bulk_action
 WHERE tenant_id = $1 AND ended_at IS NULL AND operation = ANY ($2::text[])
   AND ($3::text IS NULL OR created_by = $3)
 ORDER BY bulk_action_id DESC

-- name: bulk_action_item_page
SELECT item_id, outcome, new_job_id FROM bulk_item
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND position >= $4
 ORDER BY position LIMIT $5

-- name: bulk_action_start
UPDATE bulk_action SET next_at = server_clock(), starts_at = least(starts_at, server_clock())
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND ended_at IS NULL
RETURNING bulk_action_id

-- name: bulk_action_stop
UPDATE bulk_action SET ended_at = server_clock(), changed_at = server_clock(), stopped_by = $4,
       waiting_for = $5, token = token + 1
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND ended_at IS NULL
RETURNING bulk_action_id

-- name: bulk_action_due
-- Open bulk actions that are due and on which no node works; the longest waiting comes first.
SELECT bucket, tenant_id, bulk_action_id FROM bulk_action
 WHERE ended_at IS NULL AND next_at <= server_clock()
   AND (held_until IS NULL OR held_until < server_clock())
 ORDER BY next_at LIMIT $1

-- name: bulk_action_hold
-- No row if another node works on it, or if it has ended. A node that worked on it before finds
-- another token.
UPDATE bulk_action SET held_until = server_clock() + $4::interval, token = token + 1
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND ended_at IS NULL
   AND next_at <= server_clock() AND (held_until IS NULL OR held_until < server_clock())
RETURNING token, operation, terms::text, actor::text, origin::text, per_second, position, total

-- name: bulk_action_item_piece
SELECT position, item_id, seen FROM bulk_item
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND position >= $4
   AND outcome IS NULL
 ORDER BY position LIMIT $5

-- name: bulk_action_renew
UPDATE bulk_action SET held_until = server_clock() + $5::interval
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND token = $4 AND ended_at IS NULL
RETURNING token

-- name: bulk_action_item_record
UPDATE bulk_item SET outcome = given.outcome, new_job_id = given.new_job_id
  FROM unnest($4::integer[], $5::text[], $6::uuid[]) AS given (position, outcome, new_job_id)
 WHERE bulk_item.bucket = $1 AND bulk_item.tenant_id = $2 AND bulk_item.bulk_action_id = $3
   AND bulk_item.position = given.position

-- name: bulk_action_progress
-- The counts are those of the items, so that they are exact whatever a kill has interrupted.
UPDATE bulk_action SET position = $5, done = counted.done, skipped = counted.skipped,
       next_at = server_clock() + $6::interval, held_until = NULL, waiting_for = NULL,
       changed_at = server_clock(),
       ended_at = CASE WHEN $5 >= bulk_action.total THEN server_clock() END
  FROM (SELECT coalesce(sum(many) FILTER (WHERE outcome = 'done'), 0)::integer AS done,
               coalesce(jsonb_object_agg(outcome, many) FILTER (WHERE outcome <> 'done'),
                        '{}') AS skipped
          FROM (SELECT outcome, count(*) AS many FROM bulk_item
                 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3
                   AND outcome IS NOT NULL
                 GROUP BY outcome) AS grouped) AS counted
 WHERE bulk_action.bucket = $1 AND bulk_action.tenant_id = $2
   AND bulk_action.bulk_action_id = $3 AND bulk_action.token = $4

-- name: bulk_action_put_off
UPDATE bulk_action SET next_at = server_clock() + $5::interval, held_until = NULL,
       waiting_for = $6, changed_at = server_clock()
 WHERE bucket = $1 AND tenant_id = $2 AND bulk_action_id = $3 AND token = $4 AND ended_at IS NULL
