-- Occurrences, schedule by schedule: each lives in one shard.

CREATE OR REPLACE FUNCTION occurrence_recent(
    buckets smallint[], tenants integer[], schedules uuid[], max_count integer)
    RETURNS TABLE (schedule_id uuid, occurrence_id uuid, scheduled_for timestamptz,
                   nominal_local timestamp, due_at timestamptz, status text, cause text,
                   version integer, kind text, subject uuid, code text, notes text[],
                   created_at timestamptz)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    FOR place IN 1 .. cardinality(schedules) LOOP
        RETURN QUERY
        SELECT o.schedule_id, o.occurrence_id, o.scheduled_for, o.nominal_local, o.due_at, o.status,
               o.cause, o.version, o.kind, o.subject, o.code, o.notes, o.created_at
          FROM occurrence o
         WHERE o.bucket = buckets[place] AND o.tenant_id = tenants[place]
           AND o.schedule_id = schedules[place]
         ORDER BY o.occurrence_id DESC LIMIT max_count;
    END LOOP;
END $$;
