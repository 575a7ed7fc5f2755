-- Foresight, as Citus can read it: each payment is found by its own key, on its own shard.

CREATE OR REPLACE FUNCTION payment_timers_ahead(
    of_tenant integer, of_lane integer, until_at timestamptz, bucket_limit integer
) RETURNS TABLE (cut_at timestamptz, timers bytea)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH timed AS MATERIALIZED (
        SELECT head.* FROM outbox_lock buckets
         CROSS JOIN LATERAL (
               SELECT t.bucket, t.subject, t.tenant_id, t.due_at FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = of_lane AND t.due_at < until_at
                ORDER BY t.due_at LIMIT bucket_limit) AS head)
    SELECT CASE WHEN count(*) = bucket_limit THEN max(w.due_at) END,
           string_agg(timestamptz_send(w.due_at) || uuid_send(w.subject), '')
               FILTER (WHERE w.tenant_id = of_tenant)
      FROM timed w WHERE of_tenant = current_tenant() GROUP BY w.bucket;
END $$;

CREATE OR REPLACE FUNCTION payment_terms(of_tenant integer, buckets smallint[], ids uuid[])
    RETURNS TABLE (payment_id uuid, from_account text, to_account text, amount bigint,
                   hold boolean, retry_until timestamptz, schedule_id uuid)
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.payment_id, p.from_account, p.to_account, p.amount, p.hold, p.retry_until,
           p.schedule_id
      FROM unnest(buckets, ids) AS wanted (bucket, id)
      JOIN payment p ON p.bucket = wanted.bucket AND p.tenant_id = of_tenant
           AND p.payment_id = wanted.id;
END $$;
