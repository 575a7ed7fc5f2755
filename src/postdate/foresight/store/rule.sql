-- The rules of a tenant's schedules, or of all tenants', as far as they say what will be due.

-- name: rule_fingerprints
-- One for each bucket with schedules that go on. It changes whenever a rule, a pause or a calendar
-- does; not with each occurrence.
SELECT s.bucket, count(*)::integer,
       bit_xor(hash_record_extended(ROW(s.schedule_id, s.changed_at), 0)),
       (SELECT bit_xor(hash_record_extended(ROW(c.tenant_id, c.name, c.changed_at), 0))
          FROM calendar c WHERE c.tenant_id = $1 OR $1 IS NULL)
  FROM schedule s
 WHERE (s.tenant_id = $1 OR $1 IS NULL) AND s.deleted_at IS NULL AND s.ended_at IS NULL
   AND s.set_aside_at IS NULL AND (s.paused_at IS NULL OR s.resumed_at IS NOT NULL)
 GROUP BY s.bucket

-- name: rule_list
-- The active rules of some buckets. A template is json: only what names lane, destination and
-- accounts is read.
SELECT s.bucket, v.rule::text, v.policies::text, v.template ->> 'payment', s.tenant_id,
       s.schedule_id, greatest(s.handled, v.since), s.runs, v.template #>> '{job,lane}',
       coalesce(v.template #>> '{job,destination,name}',
                split_part(v.template #>> '{job,destination,url}', '?', 1),
                v.template #>> '{job,destination,type}')
  FROM outbox_lock AS buckets
 CROSS JOIN LATERAL (
       SELECT * FROM schedule s
        WHERE s.bucket = buckets.bucket AND (s.tenant_id = $1 OR $1 IS NULL)
          AND s.deleted_at IS NULL AND s.ended_at IS NULL AND s.set_aside_at IS NULL
          AND (s.paused_at IS NULL OR s.resumed_at IS NOT NULL)
        LIMIT $3) AS s
  JOIN schedule_version v ON v.bucket = s.bucket AND v.tenant_id = s.tenant_id
       AND v.schedule_id = s.schedule_id AND v.version = s.version
 WHERE buckets.bucket = ANY ($2::smallint[])

-- name: rule_largest
-- The tenants with the most schedules, if they have at least $1.
SELECT s.tenant_id FROM schedule s WHERE s.deleted_at IS NULL AND s.ended_at IS NULL
 GROUP BY s.tenant_id HAVING count(*) >= $1 ORDER BY count(*) DESC LIMIT $2
