-- Activity: counts that are added up, and what is due ahead.

CREATE OR REPLACE FUNCTION array_sum(integer[], integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS both_of (a, b, place)$$;

-- In which minutes timers of one tenant become due, at each of the given places (buckets with a
-- lane beside each). Minutes are counted from `begin_at` on; -1 is that of all that is due before.
-- At most `place_limit` timers are walked at a place and `walk_limit` in all, those of others
-- included: payments of every tenant share a lane, so the walk must be bounded before the tenant is
-- looked at, which row-level security would do first.
-- The last row has no place. `walked` is how many timers were seen; `known` the instant up to which
-- every place was walked whole.
CREATE OR REPLACE FUNCTION due_by_minute(
    of_tenant integer, buckets smallint[], lanes integer[], begin_at timestamptz,
    until_at timestamptz, place_limit integer, walk_limit integer
) RETURNS TABLE (lane_id integer, place integer, minutes integer[], walked integer,
                 known timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
WITH walked AS MATERIALIZED (
    SELECT head.place::integer, head.lane_id,
           head.tenant_id = of_tenant AND head.claimed_at IS NULL AS counts, head.due_at
      FROM timer_walk(buckets, lanes, ARRAY['-infinity'::timestamptz],
                      '00000000-0000-0000-0000-000000000000',
                      until_at - interval '1 microsecond', NULL, place_limit) AS head
     LIMIT walk_limit),
cut AS (
    SELECT max(due_at) AS at FROM walked GROUP BY place HAVING count(*) = place_limit),
seen AS MATERIALIZED (
    SELECT (SELECT count(*) FROM walked)::integer AS walked,
           coalesce((SELECT min(at) FROM cut), until_at) AS known)
SELECT w.lane_id, w.place,
       array_agg(greatest(-1, floor(date_part('epoch', w.due_at - begin_at) / 60))::integer),
       NULL::integer, NULL::timestamptz
  FROM walked w CROSS JOIN seen
 WHERE of_tenant = current_tenant() AND w.counts AND w.due_at <= seen.known
 GROUP BY w.lane_id, w.place
 UNION ALL
SELECT NULL, NULL, NULL, seen.walked, seen.known FROM seen
$$;

REVOKE EXECUTE ON FUNCTION due_by_minute FROM PUBLIC;
GRANT EXECUTE ON FUNCTION due_by_minute TO postdate_reader;
