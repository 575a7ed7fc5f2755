-- Settling: what is due is locked and loaded with one call, and written with one call.

-- Lock due payments' timers bucket by bucket, load what they ask for, and say which may not be
-- settled because their tenant stands still: the lock of halts comes first. The arguments come
-- sorted by bucket. What somebody else holds (another settler, a cancel) is skipped: none waits for
-- a timer. A timer without its payment gives nulls, never nothing: it must not be overlooked. The
-- last row has the time and nothing else.
DROP FUNCTION settlement_lock;
DROP FUNCTION timer_lock;
CREATE FUNCTION settlement_lock(lane integer, buckets smallint[], subjects uuid[])
    RETURNS TABLE (bucket smallint, tenant_id integer, subject uuid, due_at timestamptz,
                   token integer, from_account text, to_account text, amount bigint, hold boolean,
                   retry_until timestamptz, traceparent text, held boolean, at timestamptz)
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    still integer[];
    first integer := 1;
    last integer;
BEGIN
    PERFORM halt_share();
    still := (SELECT tenants_held());
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        RETURN QUERY SELECT t.bucket, t.tenant_id, t.subject, t.due_at, t.token::integer,
                p.from_account, p.to_account, p.amount, p.hold, p.retry_until, p.traceparent,
                t.tenant_id = ANY (still), NULL::timestamptz
            FROM unnest(subjects[first:last]) AS wanted (subject)
            JOIN timer t ON t.bucket = buckets[first] AND t.subject = wanted.subject
            LEFT JOIN payment p ON p.bucket = buckets[first] AND p.tenant_id = t.tenant_id
             AND p.payment_id = t.subject
            WHERE t.lane_id = lane AND t.due_at <= clock()
            FOR UPDATE OF t SKIP LOCKED;
        first := last + 1;
    END LOOP;
    at := clock();
    RETURN NEXT;
END $$;
REVOKE EXECUTE ON FUNCTION settlement_lock FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settlement_lock TO postdate_writer;

-- Add to balances, holds and versions, and return the accounts as they were before. The update is
-- the lock: one record in the log and one visit instead of two. Rows are visited in the one order
-- of locking, bucket by bucket and sorted within: without hash and merge joins either side of the
-- loop comes in that order, the arguments as given or the accounts by their index.
CREATE FUNCTION account_add(
    buckets smallint[], tenants integer[], accounts text[], balances bigint[], helds bigint[],
    versions bigint[]
) RETURNS TABLE (
    bucket smallint, tenant_id integer, account_id text, balance bigint, held bigint,
    version bigint, floor bigint, max_amount bigint, frozen_at timestamptz, closed_at timestamptz
) LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
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
            FROM unnest(tenants[first:last], accounts[first:last], balances[first:last],
                        helds[first:last], versions[first:last])
                 AS more (tenant_id, account_id, balance, held, version)
            WHERE a.bucket = buckets[first] AND a.tenant_id = more.tenant_id
              AND a.account_id = more.account_id
            RETURNING a.bucket, a.tenant_id, a.account_id, a.balance - more.balance,
                a.held - more.held, a.version - more.version, a.floor, a.max_amount, a.frozen_at,
                a.closed_at;
        first := last + 1;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION account_add FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_add TO postdate_writer;

-- Write completed payments: both legs of each transfer, outcomes and events, and the timers gone.
-- Returns how many timers there were. Plain statements of one table each, for a sharded PostgreSQL.
CREATE FUNCTION payment_settle(
    tenants integer[], ids uuid[], tokens integer[], dues timestamptz[], transfers uuid[],
    amounts bigint[], from_buckets smallint[], payers text[], from_balances bigint[],
    from_versions bigint[], to_buckets smallint[], payees text[], to_balances bigint[],
    to_versions bigint[], events uuid[], started timestamptz, execution text, actor text
) RETURNS integer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    deleted integer;
BEGIN
    INSERT INTO entry (bucket, tenant_id, account_id, version, transfer_id, amount, balance, type,
                       payment_id)
    SELECT bucket, tenant_id, account_id, version, transfer_id, -amount, balance, 'PAYMENT',
           payment_id
      FROM unnest(from_buckets, tenants, payers, from_versions, transfers, amounts, from_balances,
                  ids) AS leg (bucket, tenant_id, account_id, version, transfer_id, amount,
                               balance, payment_id)
     UNION ALL
    SELECT bucket, tenant_id, account_id, version, transfer_id, amount, balance, 'PAYMENT',
           payment_id
      FROM unnest(to_buckets, tenants, payees, to_versions, transfers, amounts, to_balances,
                  ids) AS leg (bucket, tenant_id, account_id, version, transfer_id, amount,
                               balance, payment_id);
    INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                         finished_at, transfer_id, execution_id)
    SELECT bucket, tenant_id, subject, token + 1, 'COMPLETED', due_at, started, clock(),
           transfer_id, execution
      FROM unnest(from_buckets, tenants, ids, tokens, dues, transfers)
           AS done (bucket, tenant_id, subject, token, due_at, transfer_id);
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket, tenant_id, subject, event_id, 'payment.completed', actor,
           jsonb_build_object('transfer_id', transfer_id)
      FROM unnest(from_buckets, tenants, ids, events, transfers)
           AS done (bucket, tenant_id, subject, event_id, transfer_id);
    DELETE FROM timer t USING unnest(from_buckets, ids) AS done (bucket, subject)
     WHERE t.bucket = done.bucket AND t.subject = done.subject;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END $$;
REVOKE EXECUTE ON FUNCTION payment_settle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_settle TO postdate_writer;

-- The last time at which a settler trusted the database's clock. A node that starts compares the
-- time with it, and with its own clock, before it believes that something is due.
CREATE TABLE settlement_clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL DEFAULT clock()
);
INSERT INTO settlement_clock DEFAULT VALUES;

-- It belongs to no tenant.
GRANT SELECT ON settlement_clock TO postdate_reader;
GRANT SELECT, UPDATE ON settlement_clock TO postdate_writer;

-- Nobody waits for the row: whoever holds it records the time, too.
CREATE FUNCTION settlement_clock_record() RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS
    $$UPDATE settlement_clock SET at = clock()
       WHERE one IN (SELECT one FROM settlement_clock FOR UPDATE SKIP LOCKED)$$;
REVOKE EXECUTE ON FUNCTION settlement_clock_record FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settlement_clock_record TO postdate_writer;
