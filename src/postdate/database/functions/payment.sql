-- Payments: accepted, and settled in two steps.
--
-- What asks for no account is written before the accounts are touched, so that they are held for
-- less long, and the next batch can be prepared meanwhile.

-- Payments as rows, from one array for each column; a column of one value for all rows comes as
-- that value. See job_rows, which is built alike.
CREATE OR REPLACE FUNCTION payment_rows(new payment_columns)
    RETURNS SETOF payment LANGUAGE sql STABLE AS $$
    SELECT bucket, to_bucket, coalesce(tenant_id, (SELECT new.tenant_id[1])), payment_id,
           from_account, to_account, amount, due_at, coalesce(hold, (SELECT new.hold[1])),
           retry_until, clock(), description, schedule_id, traceparent, on_broken,
           coalesce(actor, (SELECT new.actor[1])), idempotency_key, refund_of
      FROM (SELECT unnest(new.bucket) AS bucket, unnest(new.to_bucket) AS to_bucket,
                   unnest(new.tenant_id) AS tenant_id, unnest(new.payment_id) AS payment_id,
                   unnest(new.from_account) AS from_account, unnest(new.to_account) AS to_account,
                   unnest(new.amount) AS amount, unnest(new.due_at) AS due_at,
                   unnest(new.hold) AS hold, unnest(new.retry_until) AS retry_until,
                   unnest(new.description) AS description, unnest(new.schedule_id) AS schedule_id,
                   unnest(new.traceparent) AS traceparent, unnest(new.on_broken) AS on_broken,
                   unnest(new.actor) AS actor, unnest(new.idempotency_key) AS idempotency_key,
                   unnest(new.refund_of) AS refund_of) AS given
$$;

-- Insert payments: each with its timer, and put into the outbox, with every value sent once. Plain
-- statements of one table each, for a sharded PostgreSQL.
CREATE OR REPLACE FUNCTION payment_insert(new payment_columns, lane integer)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := new.tenant_id[1];
BEGIN
    INSERT INTO payment SELECT * FROM payment_rows(new);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, coalesce(tenant, first_tenant), lane, id, due
      FROM (SELECT unnest(new.bucket) AS bucket, unnest(new.tenant_id) AS tenant,
                   unnest(new.payment_id) AS id, unnest(new.due_at) AS due) AS given;
    -- Why twice OFFSET 0: see job_insert.
    INSERT INTO outbox (bucket, tenant_id, types, subjects, digests)
    SELECT bucket, tenant_id, '{payment.scheduled}', array_agg(payment_id ORDER BY payment_id),
           string_agg(digest, '' ORDER BY payment_id)
      FROM (SELECT p.bucket, p.tenant_id, p.payment_id,
                   payment_digest(ROW(p.*)::payment) AS digest
              FROM (SELECT * FROM payment_rows(new) OFFSET 0) AS p
            OFFSET 0) AS accepted
     GROUP BY bucket, tenant_id;
END $$;

-- Accept payments in one round trip, unless their tenant is halted. Accounts are held for as short
-- a time as can be: the holds come last but for the keys.
CREATE OR REPLACE FUNCTION payment_accept(
    new payment_columns, lane integer, holds hold_columns, keys idempotency_columns)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM halt_refuse_new(new.tenant_id, new.schedule_id);
    PERFORM payment_insert(new, lane);
    PERFORM account_hold(holds.bucket, holds.tenant_id, holds.account_id, holds.amount,
                         holds.floor, holds.max_amount);
    PERFORM idempotency_insert(keys);
END $$;

-- Delete the timers of payments that are about to complete. Returns how many there were.
CREATE OR REPLACE FUNCTION payment_leave(ids uuid[]) RETURNS integer
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    deleted integer;
BEGIN
    DELETE FROM timer t
     USING (SELECT unnest(ids) AS subject) AS done
     WHERE t.bucket = bucket_of(done.subject) AND t.subject = done.subject;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;

-- Write completed payments: transfers, and outcomes, which are put into the outbox together. Plain
-- statements of one table each, for a sharded PostgreSQL. Arrays in the select list are walked, in
-- FROM they would be laid down first; a column of one value for all rows comes as that value.
CREATE OR REPLACE FUNCTION payment_settle(
    tenants integer[], ids uuid[], tokens integer[], dues float8[], transfers uuid[],
    amounts bigint[], payers text[], from_balances bigint[], from_versions bigint[], payees text[],
    to_balances bigint[], to_versions bigint[], started timestamptz, execution text, actor text
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    first_token integer := tokens[1];
    at timestamptz := clock();
    due_origin CONSTANT timestamptz := '2100-01-01 00:00:00Z';
    second CONSTANT interval := '1 second';
BEGIN
    INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_balance,
                          from_version, to_balance, to_version, created_at, from_account,
                          to_account, payment_id)
    SELECT bucket_of(id), bucket_of(transfer), coalesce(tenant, first_tenant), transfer, amount,
           from_balance, from_version, to_balance, to_version, at, payer, payee, id
      FROM (SELECT unnest(tenants) AS tenant, unnest(ids) AS id, unnest(transfers) AS transfer,
                   unnest(amounts) AS amount, unnest(payers) AS payer,
                   unnest(from_balances) AS from_balance, unnest(from_versions) AS from_version,
                   unnest(payees) AS payee, unnest(to_balances) AS to_balance,
                   unnest(to_versions) AS to_version) AS moved;
    INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                         finished_at, transfer_id, execution_id, actor, from_version, to_version)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), id, coalesce(token, first_token) + 1,
           'COMPLETED', due_origin + due * second, started, at, transfer, execution, actor,
           from_version, to_version
      FROM (SELECT unnest(tenants) AS tenant, unnest(ids) AS id,
                   unnest(tokens) AS token, unnest(dues) AS due, unnest(transfers) AS transfer,
                   unnest(from_versions) AS from_version,
                   unnest(to_versions) AS to_version) AS done;
    INSERT INTO outbox (bucket, tenant_id, types, subjects, events, digests)
    SELECT bucket, tenant_id, '{payment.completed}', array_agg(id ORDER BY transfer),
           array_agg(transfer ORDER BY transfer), string_agg(digest, '' ORDER BY transfer)
      FROM (SELECT bucket_of(id) AS bucket, coalesce(tenant, first_tenant) AS tenant_id, id,
                   transfer, transfer_digest(
                       ROW(bucket_of(id), coalesce(token, first_token) + 1,
                           coalesce(tenant, first_tenant), id, 'COMPLETED',
                           due_origin + due * second, started, at, transfer, NULL, execution,
                           NULL, NULL, NULL, NULL, NULL, actor, from_version,
                           to_version, NULL)::outcome,
                       ROW(bucket_of(id), bucket_of(transfer), coalesce(tenant, first_tenant),
                           transfer, amount, from_balance, from_version, to_balance, to_version,
                           at, payer, payee, id, NULL)::transfer) AS digest
              FROM (SELECT unnest(tenants) AS tenant, unnest(ids) AS id,
                           unnest(tokens) AS token, unnest(dues) AS due,
                           unnest(transfers) AS transfer, unnest(amounts) AS amount,
                           unnest(payers) AS payer, unnest(from_balances) AS from_balance,
                           unnest(from_versions) AS from_version, unnest(payees) AS payee,
                           unnest(to_balances) AS to_balance,
                           unnest(to_versions) AS to_version) AS done OFFSET 0) AS told
     GROUP BY bucket, tenant_id;
END $$;

REVOKE EXECUTE ON FUNCTION payment_insert, payment_accept, payment_leave,
    payment_settle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_insert, payment_accept, payment_leave, payment_settle
   TO postdate_writer;

-- Whole payments by id, of one tenant, as one statement: the tenant that row-level security admits
-- is set here, for this transaction only, so that a reader needs no BEGIN, SET and COMMIT around
-- it. Most payments are waiting and untried, or ended at the first attempt: attempts are joined
-- only for the others. STABLE has the statements share one snapshot, in which each payment is in
-- one of the three states. Every join is by primary key, so that partitions are pruned row by row;
-- those outside of the ids' range (first_id to last_id) are not even begun.
CREATE OR REPLACE FUNCTION payment_read(
    of_tenant integer, buckets smallint[], ids uuid[], first_id uuid, last_id uuid
) RETURNS TABLE (
    parked boolean, timer_due_at timestamptz, status text, outcome_due_at timestamptz,
    finished_at timestamptz, transfer_id uuid, code text, error text, attempt_due_at timestamptz,
    attempts smallint, attempted_at timestamptz, first_due_at timestamptz,
    -- payment_view
    bucket smallint, tenant_id integer, payment_id uuid, from_account text, to_account text,
    amount bigint, due_at timestamptz, hold boolean, retry_until timestamptz,
    created_at timestamptz, description text, schedule_id uuid, on_broken text, refund_of uuid,
    currency text, requested_by text, requested_at timestamptz, expires_at timestamptz,
    decision text, decided_by text, decided_at timestamptz, note text
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    missing integer := cardinality(ids);
    found integer;
BEGIN
    -- Where a transaction has a tenant already, that one decides.
    IF current_tenant() IS NULL THEN
        PERFORM set_config('postdate.tenant_id', of_tenant::text, true);
    END IF;
    RETURN QUERY
    SELECT t.due_at = 'infinity', nullif(t.due_at, 'infinity'),
           NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::uuid, NULL::text, NULL::text,
           NULL::timestamptz, NULL::smallint, NULL::timestamptz, NULL::timestamptz, p.*
      FROM unnest(buckets, ids) AS wanted (bucket, payment_id)
      JOIN timer t ON t.bucket = wanted.bucket AND t.subject = wanted.payment_id AND t.token = 0
      JOIN payment_view p ON p.bucket = t.bucket AND p.tenant_id = of_tenant
           AND p.payment_id = t.subject AND p.payment_id BETWEEN first_id AND last_id
     WHERE t.bucket = ANY (buckets);
    GET DIAGNOSTICS found = ROW_COUNT;
    missing := missing - found;
    IF missing = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT false, NULL::timestamptz,
           o.status, o.due_at, o.finished_at, o.transfer_id, o.code, o.error,
           NULL::timestamptz, NULL::smallint, NULL::timestamptz, NULL::timestamptz, p.*
      FROM unnest(buckets, ids) AS wanted (bucket, payment_id)
      JOIN outcome o ON o.bucket = wanted.bucket AND o.subject = wanted.payment_id
           AND o.subject BETWEEN first_id AND last_id AND o.attempt <= 1
      JOIN payment_view p ON p.bucket = o.bucket AND p.tenant_id = of_tenant
           AND p.payment_id = o.subject AND p.payment_id BETWEEN first_id AND last_id
     WHERE o.bucket = ANY (buckets);
    GET DIAGNOSTICS found = ROW_COUNT;
    missing := missing - found;
    IF missing = 0 THEN
        RETURN;
    END IF;
    -- Payments that were tried, and ids of nothing. A payment with neither timer nor outcome would
    -- be a loss: it is shown, and found by reconciling.
    RETURN QUERY
    SELECT coalesce(t.due_at = 'infinity', false), nullif(t.due_at, 'infinity'),
           o.status, o.due_at, o.finished_at, o.transfer_id, coalesce(o.code, a.code),
           coalesce(o.error, a.error), a.due_at, a.attempt, a.finished_at, begun.due_at, p.*
      FROM unnest(buckets, ids) AS wanted (bucket, payment_id)
      JOIN payment_view p ON p.bucket = wanted.bucket AND p.tenant_id = of_tenant
           AND p.payment_id = wanted.payment_id AND p.payment_id BETWEEN first_id AND last_id
      LEFT JOIN timer t ON t.bucket = p.bucket AND t.subject = p.payment_id
      LEFT JOIN outcome o ON o.bucket = p.bucket AND o.subject = p.payment_id
           AND o.subject BETWEEN first_id AND last_id
      LEFT JOIN LATERAL (
           SELECT code, error, due_at, attempt, finished_at FROM attempt
            WHERE attempt.bucket = p.bucket AND attempt.subject = p.payment_id
              AND attempt.subject BETWEEN first_id AND last_id AND t.token > 0
            ORDER BY attempt DESC LIMIT 1) AS a ON true
      LEFT JOIN LATERAL (
           SELECT due_at FROM attempt
            WHERE attempt.bucket = p.bucket AND attempt.subject = p.payment_id
              AND attempt.subject BETWEEN first_id AND last_id
              AND (t.token > 0 OR o.attempt > 1)
            ORDER BY attempt LIMIT 1) AS begun ON true
     WHERE t.token IS DISTINCT FROM 0 AND (o.attempt IS NULL OR o.attempt > 1)
       AND p.bucket = ANY (buckets);
END $$;

-- What refunds of a payment return or have returned; failed and cancelled refunds do not
-- count. They lie in the bucket of its payee, who pays them; ids below `since` are not read.
-- One row, as a set: so it is planned with the statement that asks.
CREATE OR REPLACE FUNCTION payment_refunded(
    of_bucket smallint, of_tenant integer, of_payment uuid, since uuid
) RETURNS SETOF bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(sum(p.amount), 0)::bigint FROM payment p
     WHERE p.bucket = of_bucket AND p.tenant_id = of_tenant AND p.refund_of = of_payment
       AND p.payment_id >= since
       AND NOT EXISTS (SELECT FROM outcome o
                        WHERE o.bucket = p.bucket AND o.subject = p.payment_id
                          AND o.status <> 'COMPLETED')
$$;

-- What refunds return, for a reader of few payments: a session plans it once, not each statement.
CREATE OR REPLACE FUNCTION payment_refund_total(
    of_bucket smallint, of_tenant integer, of_payment uuid, since uuid
) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT * FROM payment_refunded(of_bucket, of_tenant, of_payment, since));
END $$;

REVOKE EXECUTE ON FUNCTION payment_read, payment_refunded, payment_refund_total FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_read, payment_refunded, payment_refund_total
   TO postdate_reader;
GRANT EXECUTE ON FUNCTION payment_refunded TO postdate_writer;
