-- Activity: what a tenant had accepted, executed and failed in each ten seconds, and how late.
--
-- The publisher counts while it seals, in the same transaction, so that the numbers are those of
-- the whole cluster and survive a restart; nodes add how late they began. A page reads some hundred
-- narrow rows of one tenant, however many jobs there are. Two hours are kept.

CREATE FUNCTION array_sum(integer[], integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS both_of (a, b, place)$$;

CREATE TABLE activity (
    tenant_id         integer NOT NULL,
    slot              timestamptz NOT NULL,
    jobs_accepted     integer NOT NULL DEFAULT 0,
    payments_accepted integer NOT NULL DEFAULT 0,
    jobs_executed     integer NOT NULL DEFAULT 0,
    payments_executed integer NOT NULL DEFAULT 0,
    jobs_failed       integer NOT NULL DEFAULT 0,
    payments_failed   integer NOT NULL DEFAULT 0,
    -- Histograms: how many began so late, by the bounds of model/activity.py.
    jobs_late         integer[] NOT NULL DEFAULT '{}',
    payments_late     integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX activity_slot ON activity (slot);
SELECT table_guard('activity', false);

-- How much of one tenant becomes due in each slot, and at each of the given places (buckets and,
-- beside each, a lane). At most `place_limit` timers are walked at a place and `walk_limit` in all,
-- those of other tenants included: payments of every tenant share a lane, so the walk must be
-- bounded before the tenant is looked at, which row-level security would do first.
-- A row has either a slot or a place. `walked` is how many timers were seen; `known` for how many
-- seconds ahead every place was walked whole.
CREATE FUNCTION due_ahead(
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
