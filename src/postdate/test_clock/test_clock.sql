-- Test clocks: what the clock of a tenant in test mode shows, and what happens as it is advanced.
-- A process that advances a clock holds it (`holder`) for some seconds, by the server's clock.

-- name: test_clock_create
INSERT INTO test_clock (tenant_id, at)
VALUES ($1, coalesce($2::timestamptz, date_trunc('second', server_clock())))

-- name: test_clock_find
SELECT at, advance, target, advance_key, entries, position FROM test_clock WHERE tenant_id = $1

-- name: test_clock_lock
-- Locks by a change that changes nothing; returns whether a process advances it.
UPDATE test_clock SET entries = entries WHERE tenant_id = $1
RETURNING at, advance, target, advance_key, entries, position,
          coalesce(held_until > (SELECT server_clock()), false) AS held

-- name: test_clock_begin
-- What was told before the advance is not part of it.
UPDATE test_clock SET target = $2, advance = advance + 1, advance_key = $3, position = $4
 WHERE tenant_id = $1

-- name: test_clock_take
UPDATE test_clock SET holder = $2, held_until = server_clock() + make_interval(secs => $3)
 WHERE tenant_id = $1

-- name: test_clock_move
-- Advance the clock and extend the lease; no row if the lease was lost.
UPDATE test_clock
   SET at = greatest(at, $3), held_until = server_clock() + make_interval(secs => $4)
 WHERE tenant_id = $1 AND holder = $2 RETURNING at

-- name: test_clock_let_go
-- The advance is finished ($3), or waits to be continued: a clock that shows the target may have
-- more to do at that very instant.
UPDATE test_clock SET holder = NULL, held_until = NULL,
       target = CASE WHEN NOT $3 THEN target END
 WHERE tenant_id = $1 AND holder = $2

-- name: test_clock_heads
-- The first timer of each lane and bucket that is due by an instant ($3), without the ones
-- tried in vain ($4): the tenant's own lanes of the system ($2), and those of its jobs that are
-- ours to run.
WITH own AS (
    SELECT unnest($2::integer[]) AS lane_id
     UNION ALL
    SELECT l.lane_id FROM lane l
     WHERE l.tenant_id = $1 AND l.kind = 'push' AND l.paused_at IS NULL)
SELECT t.bucket, t.lane_id, t.subject, t.due_at
  FROM (SELECT place.bucket, (
               SELECT t.subject FROM timer t
                WHERE t.bucket = place.bucket AND t.lane_id = own.lane_id AND t.due_at <= $3
                  AND t.subject <> ALL ($4::uuid[])
                ORDER BY t.due_at, t.subject LIMIT 1) AS subject
          FROM outbox_lock place CROSS JOIN own) AS head
  JOIN timer t ON t.bucket = head.bucket AND t.subject = head.subject

-- name: test_clock_payments
-- What is due in a lane by an instant, in the order of settling.
SELECT head.bucket, head.subject
  FROM outbox_lock place
 CROSS JOIN LATERAL (
       SELECT t.bucket, t.due_at, t.subject FROM timer t
        WHERE t.bucket = place.bucket AND t.lane_id = $1 AND t.due_at <= $2
        ORDER BY t.due_at, t.subject LIMIT $3) AS head
 ORDER BY head.due_at, head.subject LIMIT $3

-- name: test_clock_list_due_worker_timers
-- The timers of workers' jobs that come due after an instant and up to another: they wait for their
-- worker, or their lease has ended. A page begins after an instant and a subject ($2, $5).
SELECT head.due_at, head.subject, head.claimed_at IS NOT NULL AS leased, l.name AS lane, l.lane_id
  FROM outbox_lock place
  JOIN timer head ON head.bucket = place.bucket
   AND (head.due_at, head.subject) > ($2::timestamptz, $5::uuid) AND head.due_at <= $3
  JOIN lane l ON l.lane_id = head.lane_id
 WHERE l.tenant_id = $1 AND l.kind = 'pull'
 ORDER BY head.due_at, head.subject LIMIT $4

-- name: test_clock_unsealed
SELECT EXISTS (SELECT 1 FROM outbox WHERE tenant_id = $1)

-- name: test_clock_subscriptions
SELECT subscription_id, position, failures, error, delivered_at FROM subscription
 WHERE tenant_id = $1

-- name: test_clock_enter
-- Number the entries on, and note up to which event they tell.
WITH counted AS (
    UPDATE test_clock SET entries = entries + $2, position = greatest(position, $7::bigint)
     WHERE tenant_id = $1 RETURNING advance, entries - $2 AS before)
INSERT INTO test_clock_entry (tenant_id, number, advance, at, type, subject, outcome)
SELECT $1, c.before + new.place, c.advance, new.at, new.type, new.subject, new.outcome
  FROM counted c CROSS JOIN unnest($3::timestamptz[], $4::text[], $5::uuid[], $6::jsonb[])
       WITH ORDINALITY AS new (at, type, subject, outcome, place)

-- name: test_clock_entries
SELECT number, at, type, subject::text, outcome FROM test_clock_entry
 WHERE tenant_id = $1 AND number > $2 AND ($3::integer IS NULL OR advance = $3)
 ORDER BY number LIMIT $4
