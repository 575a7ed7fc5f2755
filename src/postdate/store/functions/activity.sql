-- Activity: counts that are added up, and what is due ahead.

CREATE OR REPLACE FUNCTION array_sum(integer[], integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS both_of (a, b, place)$$;

-- How much of one tenant becomes due in each slot, and at each of the given places (buckets and,
-- beside each, a lane). At most `place_limit` timers are walked at a place and `walk_limit` in all,
-- those of other tenants included: payments of every tenant share a lane, so the walk must be
-- bounded before the tenant is looked at, which row-level security would do first.
-- A row has either a slot or a place. `walked` is how many timers were seen; `known` for how many
-- seconds ahead every place was walked whole.
CREATE OR REPLACE FUNCTION due_ahead(
    of_tenant integer, buckets smallint[], lanes integer[], slot_seconds integer,
    ahead_seconds integer, place_limit integer, walk_limit integer
) RETURNS TABLE (slot integer, place integer, payments boolean, many integer, walked integer,
                 known float8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
WITH moment AS MATERIALIZED (
    SELECT clock() AS now, clock() + make_interval(secs => ahead_seconds) AS until),
walked AS MATERIALIZED (
    SELECT wanted.place::integer, wanted.lane_id = 0 AS payments, head.counts,
           date_part('epoch', head.due_at - (SELECT now FROM moment)) AS seconds
      FROM unnest(buckets, lanes) WITH ORDINALITY AS wanted (bucket, lane_id, place)
     CROSS JOIN LATERAL (
           SELECT t.due_at, t.tenant_id = of_tenant AND t.claimed_at IS NULL AS counts
             FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id
              AND t.due_at > (SELECT now FROM moment) AND t.due_at < (SELECT until FROM moment)
            ORDER BY t.due_at LIMIT place_limit) AS head
     LIMIT walk_limit),
cut AS (
    SELECT max(seconds) AS seconds FROM walked GROUP BY place HAVING count(*) = place_limit),
seen AS MATERIALIZED (
    SELECT (SELECT count(*) FROM walked)::integer AS walked,
           coalesce((SELECT min(seconds) FROM cut), ahead_seconds) AS known)
SELECT floor(w.seconds / slot_seconds)::integer AS slot, w.place, w.payments,
       count(*) FILTER (WHERE w.counts)::integer, seen.walked, seen.known
  FROM walked w, seen
 WHERE of_tenant = current_tenant() AND w.seconds <= seen.known
 GROUP BY GROUPING SETS ((1, 3, 5, 6), (2, 3, 5, 6))
$$;

REVOKE EXECUTE ON FUNCTION due_ahead FROM PUBLIC;
GRANT EXECUTE ON FUNCTION due_ahead TO postdate_reader;
