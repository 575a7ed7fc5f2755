-- Schedules: where each stands, and what was asked for in each version.

-- name: schedule_insert
INSERT INTO schedule (bucket, tenant_id, schedule_id, handled, created_at, changed_at)
VALUES ($1, $2, $3, $4, $4, $4)

-- name: schedule_insert_version
INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, policies,
                              template, actor, traceparent, template_by, persons, since,
                              previous_until)
VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, $7::text::jsonb, $8::text::json, $9, $10, $11, $12,
        $13, $14)

-- name: schedule_read_authors
SELECT template_by, persons FROM schedule_version
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3 AND version = $4

-- name: schedule_due
-- The first due timers of one bucket that are not locked: without some schedules, or only some.
SELECT t.tenant_id, t.subject, t.due_at, clock() AS at FROM timer t
 WHERE t.bucket = $1 AND t.lane_id = $2 AND t.due_at >= $3 AND t.due_at <= clock()
   AND t.tenant_id <> ALL ((SELECT tenants_held())::integer[])
   AND t.subject <> ALL ($5::uuid[]) AND ($6::uuid[] IS NULL OR t.subject = ANY ($6))
 ORDER BY t.due_at LIMIT $4 FOR UPDATE SKIP LOCKED

-- name: schedule_lock_timer
-- A change of a schedule or its book locks its timer; a schedule that has ended has none.
SELECT t.due_at FROM timer t WHERE t.bucket = $1 AND t.subject = $2 FOR UPDATE

-- name: schedule_lock
-- After the timer: also held where there is none.
SELECT s.version FROM schedule s
 WHERE s.bucket = $1 AND s.tenant_id = $2 AND s.schedule_id = $3 AND s.deleted_at IS NULL
   FOR NO KEY UPDATE

-- name: schedule_load
-- One that was deleted only if $4 says so: its book can still be read.
SELECT s.bucket, s.tenant_id, s.schedule_id, s.version, s.runs, s.handled, s.buffered_for,
       s.last_id, s.paused_at, s.resumed_at, s.paused_note, s.missed_at, s.set_aside_at,
       s.set_aside_error, s.ended_at, s.created_at, s.changed_at, v.since, v.name, v.rule::text,
       v.policies::text, v.template::text, v.traceparent
  FROM unnest($1::smallint[], $2::integer[], $3::uuid[]) AS wanted (bucket, tenant_id, schedule_id)
  JOIN schedule s ON s.bucket = coalesce(wanted.bucket, ($1::smallint[])[1])
       AND s.tenant_id = coalesce(wanted.tenant_id, ($2::integer[])[1])
       AND s.schedule_id = wanted.schedule_id
  JOIN schedule_version v ON v.bucket = s.bucket AND v.tenant_id = s.tenant_id
       AND v.schedule_id = s.schedule_id AND v.version = s.version
 WHERE s.deleted_at IS NULL OR $4::boolean

-- name: schedule_versions
-- The newest versions of several schedules, the oldest of each first.
SELECT held.* FROM schedule_newest($1, $2, $3, $4) AS held ORDER BY held.schedule_id, held.version

-- name: schedule_running
-- Which jobs and payments have not ended: they still have their timer.
SELECT t.subject FROM unnest($1::smallint[], $2::uuid[]) AS wanted (bucket, subject)
  JOIN timer t USING (bucket, subject)

-- name: schedule_advance
-- Lean columns, as in occurrence_insert.
UPDATE schedule s SET runs = new.runs, handled = coalesce(new.handled, ($4::timestamptz[])[1]),
       buffered_for = new.buffered_for, last_id = coalesce(new.last_id, s.last_id),
       missed_at = coalesce(new.missed_at, s.missed_at), ended_at = new.ended_at
  FROM unnest($1::integer[], $2::uuid[], $3::integer[], $4::timestamptz[], $5::timestamptz[],
              $6::uuid[], $7::timestamptz[], $8::timestamptz[])
       AS new (tenant_id, schedule_id, runs, handled, buffered_for, last_id, missed_at, ended_at)
 WHERE s.bucket = bucket_of(new.schedule_id) AND s.schedule_id = new.schedule_id
   AND s.tenant_id = coalesce(new.tenant_id, ($1::integer[])[1])

-- name: schedule_move_timers
UPDATE timer t SET due_at = coalesce(new.due_at, ($2::timestamptz[])[1])
  FROM unnest($1::uuid[], $2::timestamptz[]) AS new (subject, due_at)
 WHERE t.bucket = bucket_of(new.subject) AND t.subject = new.subject

-- name: schedule_delete_timers
DELETE FROM timer t USING unnest($1::smallint[], $2::uuid[]) AS old (bucket, subject)
 WHERE t.bucket = old.bucket AND t.subject = old.subject

-- name: schedule_put_timer
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (bucket, subject) DO UPDATE SET due_at = excluded.due_at

-- name: schedule_change
-- What was set aside is tried again with the new version.
UPDATE schedule SET version = $4, ended_at = $5, set_aside_at = NULL, set_aside_error = NULL,
       changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_pause
-- A pause that follows another of which something is still undecided keeps its beginning: what that
-- one skipped must not run.
UPDATE schedule
   SET paused_at = CASE WHEN resumed_at > handled THEN paused_at ELSE (SELECT clock()) END,
       resumed_at = NULL, paused_note = $4, changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_resume
UPDATE schedule SET resumed_at = clock(), paused_note = NULL, changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_set_aside
UPDATE schedule SET set_aside_at = clock(), set_aside_error = $4, changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3 AND deleted_at IS NULL

-- name: schedule_take_up
UPDATE schedule SET set_aside_at = NULL, set_aside_error = NULL, changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_count_set_aside
SELECT count(*)::integer FROM (
    SELECT 1 FROM schedule
     WHERE tenant_id = $1 AND set_aside_at IS NOT NULL AND deleted_at IS NULL LIMIT $2) AS found

-- name: schedule_delete
UPDATE schedule SET deleted_at = clock(), changed_at = clock()
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_missed
UPDATE schedule SET missed_at = $4 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_timers
SELECT t.subject, t.due_at FROM unnest($1::smallint[], $2::uuid[]) AS wanted (bucket, subject)
  JOIN timer t USING (bucket, subject)

-- name: schedule_put_back
-- It came further than the present, by a clock that was ahead. What it made remains made.
UPDATE schedule SET handled = $4, missed_at = least(missed_at, $4), ended_at = NULL,
       buffered_for = CASE WHEN buffered_for <= $4 THEN buffered_for END, changed_at = $4
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3

-- name: schedule_mark_silent
-- Nothing of a tenant that stands still fires, and that is as it should be.
UPDATE schedule SET silent_since = $4
 WHERE bucket = $1 AND tenant_id = $2 AND schedule_id = $3
   AND ($4::timestamptz IS NULL OR tenant_id <> ALL ((SELECT tenants_held())::integer[]))
RETURNING true

-- name: schedule_list_silent
SELECT bucket, tenant_id, schedule_id, extract(epoch FROM clock() - silent_since)::float8 AS seconds
  FROM schedule
 WHERE silent_since <= clock() AND deleted_at IS NULL AND ended_at IS NULL
   AND set_aside_at IS NULL
 ORDER BY silent_since LIMIT $1

-- name: schedule_walk
-- The schedules that continue, or that ended in the future, in the order of their keys; without
-- those of tenants in test mode, whose time may stand still for as long as they like. The place is
-- said of the versions too: the planner merges both in order, and would walk all before it.
SELECT s.bucket, s.tenant_id, s.schedule_id, s.version, s.runs, s.handled, s.buffered_for,
       s.last_id, s.paused_at, s.resumed_at, s.paused_note, s.missed_at, s.set_aside_at,
       s.set_aside_error, s.ended_at, s.created_at, s.changed_at, v.since, v.name, v.rule::text,
       v.policies::text, v.template::text, v.traceparent
  FROM schedule s JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
 WHERE (s.bucket, s.tenant_id, s.schedule_id) > ($1, $2, $3) AND s.deleted_at IS NULL
   AND (v.bucket, v.tenant_id, v.schedule_id) > ($1, $2, $3)
   AND (s.ended_at IS NULL OR s.ended_at > clock()) AND s.set_aside_at IS NULL
   AND NOT EXISTS (SELECT FROM test_clock c WHERE c.tenant_id = s.tenant_id)
 ORDER BY s.bucket, s.tenant_id, s.schedule_id LIMIT $4

-- name: schedule_tzdata
SELECT version FROM schedule_tzdata

-- name: schedule_put_tzdata
INSERT INTO schedule_tzdata (version, changed_at) VALUES ($1, clock())
ON CONFLICT (one) DO UPDATE SET version = excluded.version, changed_at = excluded.changed_at
