-- Foresight: the open payments of a tenant, in walks that are bounded before it is looked at.

-- The payments of a tenant that become due before an instant. At most `place_limit` timers are
-- walked in a bucket and `walk_limit` in all, those of other tenants included. The first row has
-- no payment: it says how many timers were walked, and up to when every bucket was walked whole.
CREATE OR REPLACE FUNCTION payments_ahead(
    of_tenant integer, of_lane integer, until_at timestamptz, place_limit integer,
    walk_limit integer
) RETURNS TABLE (walked integer, known timestamptz, due_at timestamptz, payment_id uuid,
                 from_account text, to_account text, amount bigint, hold boolean,
                 retry_until timestamptz, schedule_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
WITH walked AS MATERIALIZED (
    SELECT head.* FROM outbox_lock buckets
     CROSS JOIN LATERAL (
           SELECT t.bucket, t.subject, t.tenant_id, t.due_at FROM timer t
            WHERE t.bucket = buckets.bucket AND t.lane_id = of_lane AND t.due_at < until_at
            ORDER BY t.due_at LIMIT place_limit) AS head
     LIMIT walk_limit),
cut AS (SELECT max(due_at) AS at FROM walked GROUP BY bucket HAVING count(*) = place_limit),
seen AS MATERIALIZED (
    SELECT (SELECT count(*) FROM walked)::integer AS walked,
           coalesce((SELECT min(at) FROM cut), until_at) AS known)
SELECT seen.walked, seen.known, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM seen
 UNION ALL
SELECT NULL, NULL, w.due_at, p.payment_id, p.from_account, p.to_account, p.amount, p.hold,
       p.retry_until, p.schedule_id
  FROM walked w CROSS JOIN seen
  JOIN payment p ON p.bucket = w.bucket AND p.tenant_id = w.tenant_id AND p.payment_id = w.subject
 WHERE of_tenant = current_tenant() AND w.tenant_id = of_tenant AND w.due_at <= seen.known
$$;

-- Whether more than so many timers of some lanes become due before an instant, those of all tenants
-- counted: an index tells, and no timer is looked at.
CREATE OR REPLACE FUNCTION timers_ahead_exceed(
    of_lanes integer[], until_at timestamptz, most integer
) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
SELECT count(*) > most
  FROM (SELECT head.subject FROM outbox_lock buckets
         CROSS JOIN LATERAL (
               SELECT t.subject FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = ANY (of_lanes)
                  AND t.due_at < until_at LIMIT most + 1) AS head
         LIMIT most + 1) AS walked
$$;

REVOKE EXECUTE ON FUNCTION payments_ahead, timers_ahead_exceed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payments_ahead, timers_ahead_exceed TO postdate_reader;
GRANT EXECUTE ON FUNCTION timers_ahead_exceed TO postdate_writer;
