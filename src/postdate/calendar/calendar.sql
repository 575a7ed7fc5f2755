-- Business calendars, by name.

-- name: calendar_put
-- `changed_at` is the instant since which it holds; its version bears the same.
INSERT INTO calendar (tenant_id, name, weekend, holidays, changed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, name) DO UPDATE SET weekend = excluded.weekend,
    holidays = excluded.holidays, changed_at = excluded.changed_at
RETURNING name, weekend, holidays, changed_at

-- name: calendar_lock
-- A change of a calendar locks it first, and only then the schedules that follow it, by an update
-- that changes nothing. Calendars have no bucket.
UPDATE calendar SET changed_at = changed_at WHERE tenant_id = $1 AND name = $2
RETURNING tenant_id, name, weekend, holidays, changed_at

-- name: calendar_insert_version
INSERT INTO calendar_version (tenant_id, name, weekend, holidays, since)
VALUES ($1, $2, $3, $4, $5)

-- name: calendar_prune_versions
DELETE FROM calendar_version
 WHERE tenant_id = $1 AND name = $2 AND since < (
       SELECT min(kept.since) FROM (
           SELECT since FROM calendar_version WHERE tenant_id = $1 AND name = $2
            ORDER BY since DESC LIMIT $3) AS kept)

-- name: calendar_current
SELECT c.tenant_id, c.name, c.weekend, c.holidays, c.changed_at
  FROM unnest($1::integer[], $2::text[]) AS wanted (tenant_id, name)
  JOIN calendar c USING (tenant_id, name)

-- name: calendar_versions
SELECT c.tenant_id, c.name, c.weekend, c.holidays, c.since
  FROM unnest($1::integer[], $2::text[]) AS wanted (tenant_id, name)
  JOIN calendar_version c USING (tenant_id, name)
 ORDER BY c.tenant_id, c.name, c.since

-- name: calendar_page
SELECT name, weekend, holidays, changed_at FROM calendar
 WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3

-- name: calendar_find
SELECT name, weekend, holidays, changed_at FROM calendar WHERE tenant_id = $1 AND name = $2

-- name: calendar_delete
DELETE FROM calendar WHERE tenant_id = $1 AND name = $2 RETURNING name

-- name: calendar_used
SELECT s.schedule_id FROM schedule s
  JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
 WHERE s.tenant_id = $1 AND v.rule ->> 'calendar' = $2 AND s.deleted_at IS NULL
   AND s.ended_at IS NULL
 ORDER BY s.schedule_id LIMIT $3
