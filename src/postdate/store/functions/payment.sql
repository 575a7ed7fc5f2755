-- Payments: accepted, and settled in two steps.
--
-- What asks for no account is written before the accounts are touched, so that they are held for
-- less long, and the next batch can be prepared meanwhile.

CREATE OR REPLACE FUNCTION payment_accept(
    buckets smallint[], tenants integer[], ids uuid[], payers text[], payees text[],
    amounts bigint[], dues timestamptz[], holds boolean[], retries timestamptz[],
    descriptions text[], schedules uuid[], traces text[], brokens text[], actors text[],
    events uuid[], lane integer
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    first_hold boolean := holds[1];
    first_actor text := actors[1];
BEGIN
    INSERT INTO payment (bucket, tenant_id, payment_id, from_account, to_account, amount, due_at,
                         hold, retry_until, description, schedule_id, traceparent, on_broken)
    SELECT bucket, coalesce(tenant, first_tenant), id, payer, payee, amount, due,
           coalesce(hold, first_hold), retry, description, schedule, trace, broken
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(payers) AS payer, unnest(payees) AS payee, unnest(amounts) AS amount,
                   unnest(dues) AS due, unnest(holds) AS hold, unnest(retries) AS retry,
                   unnest(descriptions) AS description, unnest(schedules) AS schedule,
                   unnest(traces) AS trace, unnest(brokens) AS broken) AS new;
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, coalesce(tenant, first_tenant), lane, id, due
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(dues) AS due) AS new;
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket, coalesce(tenant, first_tenant), id, event_id, 'payment.scheduled',
           coalesce(actor, first_actor),
           jsonb_build_object('from_account_id', payer, 'to_account_id', payee, 'amount', amount,
                              'scheduled_time', instant_text(due))
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(events) AS event_id, unnest(actors) AS actor, unnest(payers) AS payer,
                   unnest(payees) AS payee, unnest(amounts) AS amount, unnest(dues) AS due) AS new;
    INSERT INTO outbox (bucket, tenant_id, time, subject, event_id, type)
    SELECT bucket, coalesce(tenant, first_tenant), clock(), id, event_id, 'payment.scheduled'
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(events) AS event_id) AS new;
END $$;

-- Tell that payments complete, and delete their timers. Returns how many timers there were. The
-- event has the id of the transfer and says no more: it is the busiest of all.
CREATE OR REPLACE FUNCTION payment_leave(
    buckets smallint[], tenants integer[], ids uuid[], transfers uuid[], actor text
) RETURNS integer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    deleted integer;
BEGIN
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor)
    SELECT bucket, coalesce(tenant, first_tenant), id, transfer, 'payment.completed', actor
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(transfers) AS transfer) AS done;
    INSERT INTO outbox (bucket, tenant_id, time, subject, event_id, type)
    SELECT bucket, coalesce(tenant, first_tenant), clock(), id, transfer, 'payment.completed'
      FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(transfers) AS transfer) AS done;
    DELETE FROM timer t
     USING (SELECT unnest(buckets) AS bucket, unnest(ids) AS subject) AS done
     WHERE t.bucket = done.bucket AND t.subject = done.subject;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;

CREATE OR REPLACE FUNCTION payment_settle(
    tenants integer[], ids uuid[], tokens integer[], dues timestamptz[], transfers uuid[],
    amounts bigint[], from_buckets smallint[], payers text[], from_balances bigint[],
    from_versions bigint[], to_buckets smallint[], payees text[], to_balances bigint[],
    to_versions bigint[], started timestamptz, execution text
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    first_token integer := tokens[1];
BEGIN
    INSERT INTO entry (bucket, tenant_id, account_id, version, transfer_id, amount, balance, type,
                       payment_id)
    SELECT bucket, coalesce(tenant, first_tenant), account_id, version, transfer, -amount, balance,
           'PAYMENT', id
      FROM (SELECT unnest(from_buckets) AS bucket, unnest(tenants) AS tenant,
                   unnest(payers) AS account_id, unnest(from_versions) AS version,
                   unnest(transfers) AS transfer, unnest(amounts) AS amount,
                   unnest(from_balances) AS balance, unnest(ids) AS id) AS leg
     UNION ALL
    SELECT bucket, coalesce(tenant, first_tenant), account_id, version, transfer, amount, balance,
           'PAYMENT', id
      FROM (SELECT unnest(to_buckets) AS bucket, unnest(tenants) AS tenant,
                   unnest(payees) AS account_id, unnest(to_versions) AS version,
                   unnest(transfers) AS transfer, unnest(amounts) AS amount,
                   unnest(to_balances) AS balance, unnest(ids) AS id) AS leg;
    INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                         finished_at, transfer_id, execution_id)
    SELECT bucket, coalesce(tenant, first_tenant), id, coalesce(token, first_token) + 1,
           'COMPLETED', due, started, clock(), transfer, execution
      FROM (SELECT unnest(from_buckets) AS bucket, unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(tokens) AS token, unnest(dues) AS due,
                   unnest(transfers) AS transfer) AS done;
END $$;

REVOKE EXECUTE ON FUNCTION payment_accept, payment_leave, payment_settle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_accept, payment_leave, payment_settle TO postdate_writer;
