-- Occurrences: the newest of several schedules.

-- So many of each schedule. The planner inlines this function.
CREATE OR REPLACE FUNCTION occurrence_recent(
    buckets smallint[], tenants integer[], schedules uuid[], max_count integer)
    RETURNS TABLE (schedule_id uuid, occurrence_id uuid, scheduled_for timestamptz,
                   nominal_local timestamp, due_at timestamptz, status text, cause text,
                   version integer, kind text, subject uuid, code text, notes text[],
                   created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT wanted.schedule_id, newest.occurrence_id, newest.scheduled_for, newest.nominal_local,
           newest.due_at, newest.status, newest.cause, newest.version, newest.kind, newest.subject,
           newest.code, newest.notes, newest.created_at
      FROM unnest(buckets, tenants, schedules) AS wanted (bucket, tenant_id, schedule_id)
     CROSS JOIN LATERAL (
           SELECT * FROM occurrence o
            WHERE o.bucket = wanted.bucket AND o.tenant_id = wanted.tenant_id
              AND o.schedule_id = wanted.schedule_id
            ORDER BY o.occurrence_id DESC LIMIT max_count) AS newest
$$;
