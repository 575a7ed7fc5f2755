-- A schedule as a client sees it: where it stands, its version in force, and its timer.

-- name: schedule_view_find
SELECT s.bucket, s.tenant_id, s.schedule_id, s.version, s.runs, s.handled, s.buffered_for,
       s.last_id, s.paused_at, s.resumed_at, s.paused_note, s.missed_at, s.set_aside_at,
       s.set_aside_error, s.ended_at, s.created_at, s.changed_at, v.since, v.name, v.rule::text,
       v.policies::text, v.template::text, v.traceparent, t.due_at
  FROM schedule s JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.schedule_id
 WHERE s.bucket = $1 AND s.tenant_id = $2 AND s.schedule_id = $3 AND s.deleted_at IS NULL

-- name: schedule_view_page
SELECT s.bucket, s.tenant_id, s.schedule_id, s.version, s.runs, s.handled, s.buffered_for,
       s.last_id, s.paused_at, s.resumed_at, s.paused_note, s.missed_at, s.set_aside_at,
       s.set_aside_error, s.ended_at, s.created_at, s.changed_at, v.since, v.name, v.rule::text,
       v.policies::text, v.template::text, v.traceparent, t.due_at
  FROM schedule s JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
  LEFT JOIN timer t ON t.bucket = s.bucket AND t.subject = s.schedule_id
 WHERE s.tenant_id = $1 AND s.schedule_id > $2 AND s.deleted_at IS NULL
   AND ($4::boolean IS NOT TRUE OR s.missed_at IS NOT NULL)
   AND ($5::boolean IS NOT TRUE OR s.set_aside_at IS NOT NULL)
 ORDER BY s.schedule_id LIMIT $3

-- name: schedule_view_called
-- Which schedules have exactly this name now; an older version may have had it.
SELECT s.schedule_id
  FROM schedule_version v JOIN schedule s USING (bucket, tenant_id, schedule_id, version)
 WHERE v.tenant_id = $1 AND v.name = $2 AND s.tenant_id = $1 AND s.schedule_id > $3
   AND s.deleted_at IS NULL
 ORDER BY s.schedule_id LIMIT $4

-- name: schedule_view_named
-- Schedules whose names contain a text, among the newest.
SELECT s.schedule_id, v.name
  FROM (SELECT bucket, tenant_id, schedule_id, version FROM schedule
         WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY schedule_id DESC LIMIT $3) AS s
  JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
 WHERE v.tenant_id = $1 AND strpos(lower(v.name), lower($2)) > 0
 ORDER BY s.schedule_id DESC LIMIT $4
