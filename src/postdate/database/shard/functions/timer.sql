-- Timers, as Citus can find them: it pushes no LIMIT down beside a row of `unnest`, but a read of a
-- shard's own buckets.

CREATE OR REPLACE FUNCTION timer_first(buckets smallint[], lanes integer[], lows timestamptz[])
    RETURNS TABLE (bucket smallint, lane_id integer, due_at timestamptz)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT place.bucket, wanted.lane_id,
           (SELECT t.due_at FROM timer t
             WHERE t.bucket = place.bucket AND t.lane_id = wanted.lane_id
               AND t.due_at >= wanted.low
             ORDER BY t.due_at LIMIT 1)
      FROM outbox_lock place
      JOIN unnest(buckets, lanes, lows) AS wanted (bucket, lane_id, low)
        ON wanted.bucket = place.bucket
     WHERE place.bucket = ANY (buckets);
END $$;

-- The next lane of each gap alone: Citus plans no recursion over shards. The caller asks again for
-- what follows a lane that was found.
CREATE OR REPLACE FUNCTION timer_lanes(
    buckets smallint[], afters integer[], befores integer[], max_count integer)
    RETURNS TABLE (bucket smallint, lane_id integer, due_at timestamptz)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH first AS MATERIALIZED (
        SELECT place.bucket,
               (SELECT t.lane_id FROM timer t
                 WHERE t.bucket = place.bucket AND t.lane_id > gap.after AND t.lane_id < gap.before
                 ORDER BY t.lane_id LIMIT 1) AS lane_id
          FROM outbox_lock place
          JOIN unnest(buckets, afters, befores) AS gap (bucket, after, before)
            ON gap.bucket = place.bucket
         WHERE place.bucket = ANY (buckets) AND max_count > 0)
    SELECT head.bucket, head.lane_id, head.due_at
      FROM timer_first(ARRAY(SELECT f.bucket FROM first f WHERE f.lane_id IS NOT NULL),
                       ARRAY(SELECT f.lane_id FROM first f WHERE f.lane_id IS NOT NULL),
                       ARRAY(SELECT '-infinity'::timestamptz FROM first f
                              WHERE f.lane_id IS NOT NULL)) AS head;
END $$;

-- Walk: the subjects of each place are gathered on its shard, and found again by their keys.
CREATE OR REPLACE FUNCTION timer_walk(
    buckets smallint[], lanes integer[], lows timestamptz[], after uuid, until_at timestamptz,
    of_tenant integer, max_count integer)
    RETURNS TABLE (place bigint, bucket smallint, lane_id integer, tenant_id integer, subject uuid,
                   token bigint, due_at timestamptz, claimed_at timestamptz, claimed_by uuid)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    first_low timestamptz := lows[1];
BEGIN
    RETURN QUERY
    WITH walked AS MATERIALIZED (
        SELECT wanted.place, every.bucket,
               ARRAY(SELECT t.subject FROM timer t
                      WHERE t.bucket = every.bucket AND t.lane_id = wanted.lane_id
                        AND (t.due_at, t.subject) > (coalesce(wanted.low, first_low), after)
                        AND t.due_at <= until_at
                        AND (of_tenant IS NULL OR t.tenant_id = of_tenant)
                      ORDER BY t.due_at, t.subject LIMIT max_count) AS subjects
          FROM outbox_lock every
          JOIN unnest(buckets, lanes, lows) WITH ORDINALITY AS wanted (bucket, lane_id, low, place)
            ON wanted.bucket = every.bucket
         WHERE every.bucket = ANY (buckets)),
    found AS MATERIALIZED (
        SELECT w.place, w.bucket, s.subject
          FROM walked w CROSS JOIN unnest(w.subjects) AS s (subject))
    SELECT f.place, t.bucket, t.lane_id, t.tenant_id, t.subject, t.token, t.due_at, t.claimed_at,
           t.claimed_by
      FROM found f JOIN timer t ON t.bucket = f.bucket AND t.subject = f.subject
     WHERE t.bucket = ANY (buckets)
     ORDER BY f.place, t.due_at, t.subject;
END $$;
