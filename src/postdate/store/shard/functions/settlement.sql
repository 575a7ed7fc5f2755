-- Due payments, as Citus can find them: what differs by bucket is read from arrays by the bucket.

CREATE OR REPLACE FUNCTION settlement_due(
    buckets smallint[], lows timestamptz[], graces float8[], lane integer, depth integer,
    without uuid[])
    RETURNS TABLE (due_at timestamptz, subject uuid, bucket smallint)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    low_of timestamptz[] := array_fill(NULL::timestamptz, ARRAY[64]);
    grace_of float8[] := array_fill(NULL::float8, ARRAY[64]);
BEGIN
    FOR place IN 1 .. cardinality(buckets) LOOP
        low_of[buckets[place] + 1] := lows[place];
        grace_of[buckets[place] + 1] := graces[place];
    END LOOP;
    RETURN QUERY
    SELECT found.due_at, found.subject, place.bucket
      FROM outbox_lock place
     CROSS JOIN LATERAL (
           SELECT t.due_at, t.subject FROM timer t
            WHERE t.bucket = place.bucket AND t.lane_id = lane
              AND t.due_at >= low_of[place.bucket + 1]
              AND t.due_at <= clock() - make_interval(secs => grace_of[place.bucket + 1])
              AND t.subject <> ALL (without)
            ORDER BY t.due_at, t.subject LIMIT depth) AS found
     WHERE place.bucket = ANY (buckets);
END $$;
