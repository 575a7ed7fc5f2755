-- Settling, in two steps: what asks for no account is written before the accounts are touched,
-- so that they are held for less long, and the next batch can be prepared meanwhile.

-- Tell that payments complete, and delete their timers. Returns how many timers there were. The
-- event has the id of the transfer and says no more: it is the busiest of all.
CREATE FUNCTION payment_leave(
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
REVOKE EXECUTE ON FUNCTION payment_leave FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_leave TO postdate_writer;

-- Write completed payments: both legs of each transfer, and outcomes. Plain statements of one
-- table each, for a sharded PostgreSQL. Arrays in the select list are walked, in FROM they would be
-- laid down first; a column of one value for all rows comes as that value.
DROP FUNCTION payment_settle;
CREATE FUNCTION payment_settle(
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
REVOKE EXECUTE ON FUNCTION payment_settle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_settle TO postdate_writer;

-- Lock due payments' timers bucket by bucket, then load what they ask for, all at once: a plan
-- over the weeks of payments is long, and is not begun anew for each bucket. Says which may not
-- be settled because their tenant stands still: the lock of halts comes first. The arguments
-- come sorted by bucket. What somebody else holds (another settler, a cancel) is skipped: none
-- waits for a timer. A timer without its payment gives nulls, never nothing: it must not be
-- overlooked. The last row has the time and nothing else.
CREATE OR REPLACE FUNCTION settlement_lock(lane integer, buckets smallint[], subjects uuid[])
    RETURNS TABLE (bucket smallint, tenant_id integer, subject uuid, due_at timestamptz,
                   token integer, from_account text, to_account text, amount bigint, hold boolean,
                   retry_until timestamptz, traceparent text, held boolean, at timestamptz)
    LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    still integer[];
    first integer := 1;
    last integer;
    mine record;
    places smallint[] := '{}';
    tenants integer[] := '{}';
    ids uuid[] := '{}';
    dues timestamptz[] := '{}';
    tokens integer[] := '{}';
BEGIN
    PERFORM halt_share();
    still := (SELECT tenants_held());
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        SELECT array_agg(l.bucket) AS places, array_agg(l.tenant_id) AS tenants,
               array_agg(l.subject) AS ids, array_agg(l.due_at) AS dues,
               array_agg(l.token) AS tokens
          INTO mine
          FROM (SELECT t.bucket, t.tenant_id, t.subject, t.due_at, t.token::integer
                  FROM unnest(subjects[first:last]) AS wanted (subject)
                  JOIN timer t ON t.bucket = buckets[first] AND t.subject = wanted.subject
                 WHERE t.lane_id = lane AND t.due_at <= clock()
                   FOR UPDATE OF t SKIP LOCKED) AS l;
        places := places || mine.places;
        tenants := tenants || mine.tenants;
        ids := ids || mine.ids;
        dues := dues || mine.dues;
        tokens := tokens || mine.tokens;
        first := last + 1;
    END LOOP;
    RETURN QUERY SELECT l.bucket, l.tenant_id, l.subject, l.due_at, l.token, p.from_account,
            p.to_account, p.amount, p.hold, p.retry_until, p.traceparent,
            l.tenant_id = ANY (still), NULL::timestamptz
        FROM unnest(places, tenants, ids, dues, tokens)
             AS l (bucket, tenant_id, subject, due_at, token)
        LEFT JOIN payment p ON p.bucket = l.bucket AND p.tenant_id = l.tenant_id
         AND p.payment_id = l.subject;
    at := clock();
    RETURN NEXT;
END $$;
