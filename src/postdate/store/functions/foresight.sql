-- Foresight: the open payments of a tenant, in walks that are bounded before it is looked at.

-- The payments of a tenant that become due before an instant. At most `place_limit` timers are
-- walked in a bucket, those of other tenants included. The first row has no payment: it says up
-- to when every bucket was walked whole. The payments of a bucket are looked up by all of their
-- keys at once: an index is then walked, not searched for each.
CREATE OR REPLACE FUNCTION open_payments_ahead(
    of_tenant integer, of_lane integer, until_at timestamptz, place_limit integer
) RETURNS TABLE (known timestamptz, due_at timestamptz, payment_id uuid, from_account text,
                 to_account text, amount bigint, hold boolean, retry_until timestamptz,
                 schedule_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
WITH walked AS MATERIALIZED (
    SELECT buckets.bucket, head.* FROM outbox_lock buckets
     CROSS JOIN LATERAL (
           SELECT count(*)::integer AS timers, max(t.due_at) AS last_at,
                  array_agg(t.subject) FILTER (WHERE t.tenant_id = of_tenant) AS subjects,
                  array_agg(t.due_at) FILTER (WHERE t.tenant_id = of_tenant) AS dues
             FROM (SELECT t.tenant_id, t.subject, t.due_at FROM timer t
                    WHERE t.bucket = buckets.bucket AND t.lane_id = of_lane
                      AND t.due_at < until_at
                    ORDER BY t.due_at LIMIT place_limit) AS t) AS head),
seen AS MATERIALIZED (
    SELECT coalesce(min(w.last_at) FILTER (WHERE w.timers = place_limit), until_at) AS known
      FROM walked w)
SELECT seen.known, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM seen
 UNION ALL
SELECT NULL, due.due_at, p.payment_id, p.from_account, p.to_account, p.amount, p.hold,
       p.retry_until, p.schedule_id
  FROM walked w CROSS JOIN seen
 CROSS JOIN LATERAL unnest(w.subjects, w.dues) AS due (subject, due_at)
  JOIN LATERAL (
       SELECT * FROM payment p
        WHERE p.bucket = w.bucket AND p.tenant_id = of_tenant
          AND p.payment_id = ANY (w.subjects)) AS p ON p.payment_id = due.subject
 WHERE of_tenant = current_tenant() AND due.due_at <= seen.known
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

REVOKE EXECUTE ON FUNCTION open_payments_ahead, timers_ahead_exceed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION open_payments_ahead, timers_ahead_exceed TO postdate_reader;
GRANT EXECUTE ON FUNCTION timers_ahead_exceed TO postdate_writer;
