-- Accept payments: each with its timer and its first event, in one round trip and with every value
-- sent once. Plain statements of one table each, for a sharded PostgreSQL. The holds are added
-- last, by account_add, so that accounts are held for as short a time as can be. Arrays in the
-- select list are walked, in FROM they would be laid down first; a column of one value for all
-- rows comes as that value.
DROP FUNCTION payment_accept;
CREATE FUNCTION payment_accept(
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
REVOKE EXECUTE ON FUNCTION payment_accept FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_accept TO postdate_writer;

-- As before (see 0002_ledger.sql), but tenants to look at may come as one value for all.
CREATE OR REPLACE FUNCTION account_gather(
    lock_buckets smallint[], lock_tenants integer[], lock_accounts text[],
    look_buckets smallint[], look_tenants integer[], look_accounts text[]
) RETURNS TABLE (
    at timestamptz, bucket smallint, tenant_id integer, account_id text, balance bigint,
    held bigint, version bigint, floor bigint, max_amount bigint, frozen_at timestamptz,
    closed_at timestamptz
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    first_tenant integer := look_tenants[1];
BEGIN
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at
        FROM account_lock(lock_buckets, lock_tenants, lock_accounts) AS a;
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at
        FROM (SELECT unnest(look_buckets) AS bucket, unnest(look_tenants) AS tenant_id,
                     unnest(look_accounts) AS account_id) AS wanted
        JOIN account a ON a.bucket = wanted.bucket
         AND a.tenant_id = coalesce(wanted.tenant_id, first_tenant)
         AND a.account_id = wanted.account_id;
    at := clock();
    RETURN NEXT;
END $$;

-- As before (see 0014_settle.sql), but tenants and what is added may come as one value for all.
CREATE OR REPLACE FUNCTION account_add(
    buckets smallint[], tenants integer[], accounts text[], balances bigint[], helds bigint[],
    versions bigint[]
) RETURNS TABLE (
    bucket smallint, tenant_id integer, account_id text, balance bigint, held bigint,
    version bigint, floor bigint, max_amount bigint, frozen_at timestamptz, closed_at timestamptz
) LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    first_tenant integer := tenants[1];
    first_balance bigint := balances[1];
    first_held bigint := helds[1];
    first_version bigint := versions[1];
    first integer := 1;
    last integer;
BEGIN
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        RETURN QUERY UPDATE account a SET balance = a.balance + more.balance,
                held = a.held + more.held, version = a.version + more.version
            FROM (SELECT coalesce(tenant_id, first_tenant) AS tenant_id, account_id,
                         coalesce(balance, first_balance) AS balance,
                         coalesce(held, first_held) AS held,
                         coalesce(version, first_version) AS version
                    FROM unnest(tenants[first:last], accounts[first:last], balances[first:last],
                                helds[first:last], versions[first:last])
                         AS given (tenant_id, account_id, balance, held, version)) AS more
            WHERE a.bucket = buckets[first] AND a.tenant_id = more.tenant_id
              AND a.account_id = more.account_id
            RETURNING a.bucket, a.tenant_id, a.account_id, a.balance - more.balance,
                a.held - more.held, a.version - more.version, a.floor, a.max_amount, a.frozen_at,
                a.closed_at;
        first := last + 1;
    END LOOP;
END $$;
