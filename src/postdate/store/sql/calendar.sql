-- Business calendars, by name.

-- name: calendar_put
INSERT INTO calendar (tenant_id, name, weekend, holidays) VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant_id, name) DO UPDATE SET weekend = excluded.weekend,
    holidays = excluded.holidays, changed_at = clock()
RETURNING name, weekend, holidays, changed_at

-- name: calendar_find
SELECT c.tenant_id, c.name, c.weekend, c.holidays
  FROM unnest($1::integer[], $2::text[]) AS wanted (tenant_id, name)
  JOIN calendar c USING (tenant_id, name)

-- name: calendar_page
SELECT name, weekend, holidays, changed_at FROM calendar
 WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3

-- name: calendar_get
SELECT name, weekend, holidays, changed_at FROM calendar WHERE tenant_id = $1 AND name = $2

-- name: calendar_delete
DELETE FROM calendar WHERE tenant_id = $1 AND name = $2 RETURNING name

-- name: calendar_used
SELECT s.schedule_id FROM schedule s
  JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
 WHERE s.tenant_id = $1 AND v.rule ->> 'calendar' = $2 AND s.deleted_at IS NULL
   AND s.ended_at IS NULL
 ORDER BY s.schedule_id LIMIT $3
