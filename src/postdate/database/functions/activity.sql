-- Activity: counts that are added up, and what is due ahead.

CREATE OR REPLACE FUNCTION array_sum(integer[], integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS both_of (a, b, place)$$;

-- In which minutes timers of one tenant become due, at each of the given places (buckets with a
-- lane beside each). Minutes are counted from `begin_at` on; -1 is that of all that is due before.
-- At most `bucket_limit` timers are walked at a place, those of others included: payments of every
-- tenant share a lane, so the walk must be bounded before the tenant is checked, which row-level
-- security would do first. A place is added up while it is walked: no timer is kept.
-- The last row has no place. `walked` is how many timers were seen; `known` the whole minute up to
-- which every place was walked.
CREATE OR REPLACE FUNCTION timers_by_minute(
    of_tenant integer, buckets smallint[], lanes integer[], begin_at timestamptz,
    until_at timestamptz, bucket_limit integer
) RETURNS TABLE (lane_id integer, place integer, minutes integer[], walked integer,
                 known timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
WITH walked AS MATERIALIZED (
    SELECT wanted.lane_id, wanted.place::integer, head.*
      FROM unnest(buckets, lanes) WITH ORDINALITY AS wanted (bucket, lane_id, place)
     CROSS JOIN LATERAL (
           SELECT count(*)::integer AS timers, max(t.due_at) AS last_at,
                  array_agg(greatest(-1,
                      floor(date_part('epoch', t.due_at - begin_at) / 60))::integer)
                      FILTER (WHERE t.tenant_id = of_tenant AND t.claimed_at IS NULL) AS minutes
             FROM (SELECT t.tenant_id, t.due_at, t.claimed_at FROM timer t
                    WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id
                      AND t.due_at < until_at
                    ORDER BY t.due_at LIMIT bucket_limit) AS t) AS head),
seen AS MATERIALIZED (
    SELECT sum(w.timers)::integer AS walked,
           floor(date_part('epoch',
               min(w.last_at) FILTER (WHERE w.timers = bucket_limit) - begin_at) / 60) AS whole
      FROM walked w)
SELECT w.lane_id, w.place,
       CASE WHEN seen.whole IS NULL THEN w.minutes
            ELSE ARRAY(SELECT each FROM unnest(w.minutes) AS each
                        WHERE each < greatest(seen.whole, 0)) END,
       NULL::integer, NULL::timestamptz
  FROM walked w CROSS JOIN seen
 WHERE of_tenant = current_tenant() AND w.minutes IS NOT NULL
 UNION ALL
SELECT NULL, NULL, NULL, seen.walked,
       coalesce(begin_at + seen.whole * interval '1 minute', until_at)
  FROM seen
$$;

REVOKE EXECUTE ON FUNCTION timers_by_minute FROM PUBLIC;
GRANT EXECUTE ON FUNCTION timers_by_minute TO postdate_reader;
