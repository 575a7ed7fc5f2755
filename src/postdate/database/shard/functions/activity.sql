-- Activity, as Citus can walk it: the forecast takes its timers from the walk of each shard.

CREATE OR REPLACE FUNCTION timers_by_minute(
    of_tenant integer, buckets smallint[], lanes integer[], begin_at timestamptz,
    until_at timestamptz, bucket_limit integer
) RETURNS TABLE (lane_id integer, place integer, minutes integer[], walked integer,
                 known timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH timed AS MATERIALIZED (
        SELECT head.lane_id, head.place::integer,
               head.tenant_id = of_tenant AND head.claimed_at IS NULL AS counts, head.due_at,
               greatest(-1, floor(date_part('epoch', head.due_at - begin_at) / 60))::integer
                   AS minute
          FROM timer_walk(buckets, lanes, ARRAY['-infinity'::timestamptz],
                          '00000000-0000-0000-0000-000000000000',
                          until_at - interval '1 microsecond', NULL, bucket_limit) AS head),
    cut AS (SELECT max(due_at) AS at FROM timed GROUP BY place HAVING count(*) = bucket_limit),
    seen AS MATERIALIZED (
        SELECT (SELECT count(*) FROM timed)::integer AS timers,
               floor(date_part('epoch', (SELECT min(at) FROM cut) - begin_at) / 60) AS whole)
    SELECT t.lane_id, t.place, array_agg(t.minute), NULL::integer, NULL::timestamptz
      FROM timed t CROSS JOIN seen
     WHERE of_tenant = current_tenant() AND t.counts
       AND (seen.whole IS NULL OR t.minute < greatest(seen.whole, 0))
     GROUP BY t.lane_id, t.place
     UNION ALL
    SELECT NULL, NULL, NULL, seen.timers,
           coalesce(begin_at + seen.whole * interval '1 minute', until_at)
      FROM seen;
END $$;
