-- Foresight: the open payments of a tenant, in walks that are bounded before the tenant is checked.

-- The timers of a tenant's payments that become due before an instant, a row for each bucket. Each
-- takes 24 bytes: its instant, in microseconds since 2000, and its payment. At most `bucket_limit`
-- timers are walked in a bucket, those of other tenants included; `cut_at` is the last of them
-- where there may be more.
CREATE OR REPLACE FUNCTION payment_timers_ahead(
    of_tenant integer, of_lane integer, until_at timestamptz, bucket_limit integer
) RETURNS TABLE (cut_at timestamptz, timers bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
SELECT CASE WHEN head.walked = bucket_limit THEN head.last_at END, head.timers
  FROM outbox_lock buckets
 CROSS JOIN LATERAL (
       SELECT count(*) AS walked, max(t.due_at) AS last_at,
              string_agg(timestamptz_send(t.due_at) || uuid_send(t.subject), '')
                  FILTER (WHERE t.tenant_id = of_tenant) AS timers
         FROM (SELECT t.tenant_id, t.subject, t.due_at FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = of_lane AND t.due_at < until_at
                ORDER BY t.due_at LIMIT bucket_limit) AS t) AS head
 WHERE of_tenant = current_tenant()
$$;

-- What payments of a tenant pay. Those of a bucket are looked up by all of their keys at once: an
-- index is then walked, not searched for each.
CREATE OR REPLACE FUNCTION payment_terms(of_tenant integer, buckets smallint[], ids uuid[])
    RETURNS TABLE (payment_id uuid, from_account text, to_account text, amount bigint,
                   hold boolean, retry_until timestamptz, schedule_id uuid)
    LANGUAGE sql STABLE SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
WITH wanted AS MATERIALIZED (
    SELECT key.bucket, array_agg(key.id) AS ids
      FROM unnest(buckets, ids) AS key (bucket, id) GROUP BY key.bucket)
SELECT p.payment_id, p.from_account, p.to_account, p.amount, p.hold, p.retry_until, p.schedule_id
  FROM wanted w
 CROSS JOIN LATERAL (
       SELECT * FROM payment p
        WHERE p.bucket = w.bucket AND p.tenant_id = of_tenant
          AND p.payment_id = ANY (w.ids)) AS p
$$;

-- Whether more than `max_count` timers of some lanes become due before an instant, of all tenants
-- together: an index tells, and no timer is read.
CREATE OR REPLACE FUNCTION timers_ahead_exceed(
    of_lanes integer[], until_at timestamptz, max_count integer
) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
SELECT count(*) > max_count
  FROM (SELECT head.subject FROM outbox_lock buckets
         CROSS JOIN LATERAL (
               SELECT t.subject FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = ANY (of_lanes)
                  AND t.due_at < until_at LIMIT max_count + 1) AS head
         LIMIT max_count + 1) AS walked
$$;

REVOKE EXECUTE ON FUNCTION payment_timers_ahead, payment_terms, timers_ahead_exceed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_timers_ahead, payment_terms, timers_ahead_exceed
    TO postdate_reader;
GRANT EXECUTE ON FUNCTION timers_ahead_exceed TO postdate_writer;
