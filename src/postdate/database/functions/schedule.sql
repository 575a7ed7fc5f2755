-- Schedules: the newest versions of several.

-- So many of each schedule. The planner inlines this function.
CREATE OR REPLACE FUNCTION schedule_newest(
    buckets smallint[], tenants integer[], schedules uuid[], max_count integer)
    RETURNS TABLE (schedule_id uuid, version integer, since timestamptz,
                   previous_until timestamptz, name text, rule text, policies text, template text)
    LANGUAGE sql STABLE AS $$
    SELECT held.schedule_id, held.version, held.since, held.previous_until, held.name,
           held.rule::text, held.policies::text, held.template::text
      FROM unnest(buckets, tenants, schedules) AS wanted (bucket, tenant_id, schedule_id)
     CROSS JOIN LATERAL (
           SELECT * FROM schedule_version v
            WHERE v.bucket = wanted.bucket AND v.tenant_id = wanted.tenant_id
              AND v.schedule_id = wanted.schedule_id
            ORDER BY v.version DESC LIMIT max_count) AS held
$$;
