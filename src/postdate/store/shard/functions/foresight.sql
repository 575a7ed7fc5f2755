-- Foresight, as Citus can look at it: each payment is found by its own key, on its own shard.

CREATE OR REPLACE FUNCTION open_payments_ahead(
    of_tenant integer, of_lane integer, until_at timestamptz, place_limit integer
) RETURNS TABLE (known timestamptz, due_at timestamptz, payment_id uuid, from_account text,
                 to_account text, amount bigint, hold boolean, retry_until timestamptz,
                 schedule_id uuid)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH timed AS MATERIALIZED (
        SELECT head.* FROM outbox_lock buckets
         CROSS JOIN LATERAL (
               SELECT t.bucket, t.subject, t.tenant_id, t.due_at FROM timer t
                WHERE t.bucket = buckets.bucket AND t.lane_id = of_lane AND t.due_at < until_at
                ORDER BY t.due_at LIMIT place_limit) AS head),
    cut AS (SELECT max(due_at) AS at FROM timed GROUP BY bucket HAVING count(*) = place_limit),
    seen AS MATERIALIZED (
        SELECT coalesce((SELECT min(at) FROM cut), until_at) AS whole)
    SELECT seen.whole, NULL::timestamptz, NULL::uuid, NULL, NULL, NULL::bigint,
           NULL::boolean, NULL::timestamptz, NULL::uuid
      FROM seen
     UNION ALL
    SELECT NULL, w.due_at, p.payment_id, p.from_account, p.to_account, p.amount, p.hold,
           p.retry_until, p.schedule_id
      FROM timed w CROSS JOIN seen
      JOIN payment p ON p.bucket = w.bucket AND p.tenant_id = w.tenant_id
           AND p.payment_id = w.subject
     WHERE of_tenant = current_tenant() AND w.tenant_id = of_tenant AND w.due_at <= seen.whole;
END $$;
