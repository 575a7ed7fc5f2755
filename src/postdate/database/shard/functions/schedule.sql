-- Versions of schedules, schedule by schedule: each lives in one shard.

CREATE OR REPLACE FUNCTION schedule_newest(
    buckets smallint[], tenants integer[], schedules uuid[], max_count integer)
    RETURNS TABLE (schedule_id uuid, version integer, since timestamptz,
                   previous_until timestamptz, name text, rule text, policies text, template text)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    FOR place IN 1 .. cardinality(schedules) LOOP
        RETURN QUERY
        SELECT v.schedule_id, v.version, v.since, v.previous_until, v.name, v.rule::text,
               v.policies::text, v.template::text
          FROM schedule_version v
         WHERE v.bucket = buckets[place] AND v.tenant_id = tenants[place]
           AND v.schedule_id = schedules[place]
         ORDER BY v.version DESC LIMIT max_count;
    END LOOP;
END $$;
