-- The rules of a tenant's schedules, or of all tenants', as far as they say what will be due.

-- name: rule_fingerprint
-- Changes whenever a rule, a pause or a calendar does; not with each occurrence.
SELECT s.*, (SELECT max(c.changed_at) FROM calendar c WHERE c.tenant_id = $1 OR $1 IS NULL)
  FROM (SELECT count(*), max(s.changed_at), count(*) FILTER (WHERE s.ended_at IS NULL)
          FROM schedule s
         WHERE (s.tenant_id = $1 OR $1 IS NULL) AND s.deleted_at IS NULL OFFSET 0) AS s

-- name: rule_list
-- Those that go on. A template is json: only what names lane, destination and accounts is read.
SELECT s.tenant_id, s.schedule_id, greatest(s.handled, v.since), s.runs, v.rule::text,
       v.policies::text, v.template #>> '{job,lane}',
       coalesce(v.template #>> '{job,destination,name}',
                split_part(v.template #>> '{job,destination,url}', '?', 1),
                v.template #>> '{job,destination,type}'),
       v.template ->> 'payment'
  FROM schedule s JOIN schedule_version v USING (bucket, tenant_id, schedule_id, version)
 WHERE (s.tenant_id = $1 OR $1 IS NULL) AND s.deleted_at IS NULL AND s.ended_at IS NULL
   AND s.set_aside_at IS NULL AND (s.paused_at IS NULL OR s.resumed_at IS NOT NULL)
 LIMIT $2
