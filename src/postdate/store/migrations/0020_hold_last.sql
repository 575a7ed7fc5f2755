-- Accept payments: each with its timer and its first event, in one round trip and with every
-- value sent once. Plain statements of one table each, for a sharded PostgreSQL. The holds are
-- added last, by account_add, so that accounts are held for as short a time as can be.
DROP FUNCTION payment_accept;
CREATE FUNCTION payment_accept(
    buckets smallint[], tenants integer[], ids uuid[], payers text[], payees text[],
    amounts bigint[], dues timestamptz[], holds boolean[], retries timestamptz[],
    descriptions text[], schedules uuid[], traces text[], actors text[], events uuid[],
    lane integer
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO payment (bucket, tenant_id, payment_id, from_account, to_account, amount, due_at,
                         hold, retry_until, description, schedule_id, traceparent)
    SELECT * FROM unnest(buckets, tenants, ids, payers, payees, amounts, dues, holds, retries,
                         descriptions, schedules, traces);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, tenant_id, lane, subject, due_at
      FROM unnest(buckets, tenants, ids, dues) AS new (bucket, tenant_id, subject, due_at);
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket, tenant_id, subject, event_id, 'payment.scheduled', actor,
           jsonb_build_object('from_account_id', payer, 'to_account_id', payee, 'amount', amount,
                              'scheduled_time', due_at)
      FROM unnest(buckets, tenants, ids, events, actors, payers, payees, amounts, dues)
           AS new (bucket, tenant_id, subject, event_id, actor, payer, payee, amount, due_at);
END $$;
REVOKE EXECUTE ON FUNCTION payment_accept FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_accept TO postdate_writer;
