-- Accounts: locked in one order, read together, added to.

-- Lock accounts in one order, (bucket, tenant_id, account_id), bucket by bucket, in one round trip.
-- The arguments come sorted. A statement over several buckets would be refused by a sharded
-- PostgreSQL; sixty-four round trips would be most of a small batch's time. What a stranger holds
-- is not waited for for long: see account_locked.
CREATE OR REPLACE FUNCTION account_lock(buckets smallint[], tenants integer[], accounts text[])
    RETURNS SETOF account LANGUAGE plpgsql SET search_path FROM CURRENT
    SET lock_timeout = '500ms' AS $$
DECLARE
    first integer := 1;
    last integer;
BEGIN
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        RETURN QUERY SELECT a.* FROM account a
            JOIN unnest(tenants[first:last], accounts[first:last]) AS wanted (tenant_id, account_id)
            USING (tenant_id, account_id)
            WHERE a.bucket = buckets[first]
            ORDER BY a.tenant_id, a.account_id FOR NO KEY UPDATE OF a;
        first := last + 1;
    END LOOP;
END $$;

-- Say which of these accounts are locked, without waiting for any of them. The arguments come
-- sorted by bucket; one bucket at a time, as everywhere where rows are locked.
CREATE OR REPLACE FUNCTION account_locked(buckets smallint[], tenants integer[], accounts text[])
    RETURNS TABLE (bucket smallint, tenant_id integer, account_id text)
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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
        RETURN QUERY
            SELECT a.bucket, a.tenant_id, a.account_id
              FROM unnest(tenants[first:last], accounts[first:last]) AS wanted (tenant, account)
              JOIN account a ON a.bucket = buckets[first] AND a.tenant_id = wanted.tenant
               AND a.account_id = wanted.account
            EXCEPT
            SELECT free.bucket, free.tenant_id, free.account_id FROM (
                SELECT a.bucket, a.tenant_id, a.account_id
                  FROM unnest(tenants[first:last], accounts[first:last]) AS wanted (tenant, account)
                  JOIN account a ON a.bucket = buckets[first] AND a.tenant_id = wanted.tenant
                   AND a.account_id = wanted.account
                   FOR NO KEY UPDATE OF a SKIP LOCKED) AS free;
        first := last + 1;
    END LOOP;
END $$;

-- What a decision about payments needs, in one round trip: the accounts to change, locked in their
-- order, then others as they are, and the time. An account that does not exist gives no row; the
-- row with the time is always there. Tenants to read may come as one value
-- for all.
CREATE OR REPLACE FUNCTION account_gather(
    lock_buckets smallint[], lock_tenants integer[], lock_accounts text[],
    look_buckets smallint[], look_tenants integer[], look_accounts text[]
) RETURNS TABLE (
    at timestamptz, bucket smallint, tenant_id integer, account_id text, balance bigint,
    held bigint, version bigint, floor bigint, max_amount bigint, frozen_at timestamptz,
    closed_at timestamptz, currency text
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    first_tenant integer := look_tenants[1];
BEGIN
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at, a.currency
        FROM account_lock(lock_buckets, lock_tenants, lock_accounts) AS a;
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at, a.currency
        FROM (SELECT unnest(look_buckets) AS bucket, unnest(look_tenants) AS tenant_id,
                     unnest(look_accounts) AS account_id) AS wanted
        JOIN account a ON a.bucket = wanted.bucket
         AND a.tenant_id = coalesce(wanted.tenant_id, first_tenant)
         AND a.account_id = wanted.account_id;
    at := clock();
    RETURN NEXT;
END $$;

-- Add to balances, holds and versions, and return the accounts as they were before. The update is
-- the lock: one record in the log and one visit instead of two. One statement for all buckets, as a
-- sharded PostgreSQL admits: begun anew for each bucket it read the table's checks 64 times. Rows
-- are visited in the one order of locking: without hash and merge joins either side of the loop
-- comes in that order, the arguments as given or the accounts by their index. A column of one value
-- for all rows comes as that value. A row that a stranger holds is not waited for for long: the
-- caller asks account_locked which one it is, and goes on without it.
CREATE OR REPLACE FUNCTION account_add(
    buckets smallint[], tenants integer[], accounts text[], balances bigint[], helds bigint[],
    versions bigint[]
) RETURNS TABLE (
    bucket smallint, tenant_id integer, account_id text, balance bigint, held bigint,
    version bigint, floor bigint, max_amount bigint, frozen_at timestamptz, closed_at timestamptz
) LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off SET enable_mergejoin = off
SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
    first_tenant integer := tenants[1];
    first_balance bigint := balances[1];
    first_held bigint := helds[1];
    first_version bigint := versions[1];
BEGIN
    RETURN QUERY UPDATE account a SET balance = a.balance + more.balance,
            held = a.held + more.held, version = a.version + more.version, updated_at = clock()
        FROM (SELECT bucket, coalesce(tenant_id, first_tenant) AS tenant_id, account_id,
                     coalesce(balance, first_balance) AS balance,
                     coalesce(held, first_held) AS held,
                     coalesce(version, first_version) AS version
                FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant_id,
                             unnest(accounts) AS account_id, unnest(balances) AS balance,
                             unnest(helds) AS held, unnest(versions) AS version) AS given) AS more
        WHERE a.bucket = more.bucket AND a.tenant_id = more.tenant_id
          AND a.account_id = more.account_id
        RETURNING a.bucket, a.tenant_id, a.account_id, a.balance - more.balance,
            a.held - more.held, a.version - more.version, a.floor, a.max_amount, a.frozen_at,
            a.closed_at;
END $$;

-- Hold amounts of payers that were only read, or refuse with PD006 where one of them is gone,
-- frozen or closed by now, or has other limits. Whether the money is there, its own CHECK tells.
-- Locks rows in the global order with a short timeout; see account_add.
CREATE OR REPLACE FUNCTION account_hold(
    buckets smallint[], tenants integer[], accounts text[], amounts bigint[], floors bigint[],
    limits bigint[]
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off
SET enable_mergejoin = off SET lock_timeout = '500ms' AS $$
DECLARE
    unchanged integer;
BEGIN
    IF cardinality(accounts) = 0 THEN
        RETURN;
    END IF;
    WITH held AS (
        UPDATE account a SET held = a.held + more.amount, updated_at = clock()
          FROM (SELECT unnest(buckets) AS bucket, unnest(tenants) AS tenant_id,
                       unnest(accounts) AS account_id, unnest(amounts) AS amount,
                       unnest(floors) AS floor, unnest(limits) AS max_amount) AS more
         WHERE a.bucket = more.bucket AND a.tenant_id = more.tenant_id
           AND a.account_id = more.account_id
        RETURNING a.frozen_at IS NULL AND a.closed_at IS NULL
              AND (a.floor, a.max_amount) IS NOT DISTINCT FROM (more.floor, more.max_amount)
               AS as_looked_at)
    SELECT count(*) FILTER (WHERE as_looked_at) INTO unchanged FROM held;
    IF unchanged < cardinality(accounts) THEN
        RAISE EXCEPTION 'a payer has changed since it was looked at' USING ERRCODE = 'PD006';
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION account_lock, account_locked, account_gather, account_add, account_hold
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_lock, account_locked, account_gather, account_add, account_hold
    TO postdate_writer;

-- The entries of an account after one version, up to another: the newest first, at most
-- `max_count`. Inlined: the caller's plan is used. A sharded PostgreSQL has another text, for it
-- cannot read the view by key.
CREATE OR REPLACE FUNCTION account_entries(
    of_bucket smallint, of_tenant integer, of_account text, after bigint, until bigint,
    max_count integer) RETURNS SETOF entry LANGUAGE sql STABLE AS $$
    SELECT e.* FROM entry e
     WHERE e.bucket = of_bucket AND e.tenant_id = of_tenant AND e.account_id = of_account
       AND e.version > after AND e.version <= until
     ORDER BY e.version DESC LIMIT max_count
$$;

-- Where an account stood at an instant. Versions have no gaps and rise with time: the last one is
-- found by halving. Entries that have been pruned are older than any that are left. The balance
-- comes from the entry that followed, so that it is known even where the entry itself was pruned.
CREATE OR REPLACE FUNCTION account_at(
    of_bucket smallint, of_tenant integer, of_account text, instant timestamptz)
    RETURNS TABLE (version bigint, balance bigint, currency text) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE search (low, high) AS (
        SELECT 0::bigint, a.version FROM account a
         WHERE a.bucket = of_bucket AND a.tenant_id = of_tenant AND a.account_id = of_account
        UNION ALL
        SELECT CASE WHEN step.before THEN step.middle ELSE s.low END,
               CASE WHEN step.before THEN s.high ELSE step.middle - 1 END
          FROM search s CROSS JOIN LATERAL (
               SELECT half.middle,
                      coalesce((SELECT e.created_at <= instant
                                  FROM account_entries(of_bucket, of_tenant, of_account,
                                                       half.middle - 1, half.middle, 1) AS e),
                               true) AS before
                 FROM (SELECT (s.low + s.high + 1) / 2 AS middle) AS half) AS step
         WHERE s.low < s.high)
    SELECT found.low,
           coalesce((SELECT e.balance - e.amount
                       FROM account_entries(of_bucket, of_tenant, of_account, found.low,
                                            found.low + 1, 1) AS e), a.balance),
           a.currency
      FROM search found
      JOIN account a ON a.bucket = of_bucket AND a.tenant_id = of_tenant
           AND a.account_id = of_account
     WHERE found.low = found.high
$$;

-- Where an account stands, now or at an instant, and its entries from there or from an earlier
-- version back, the newest first.
CREATE OR REPLACE FUNCTION account_statement(
    of_bucket smallint, of_tenant integer, of_account text, instant timestamptz, until bigint,
    max_count integer)
    RETURNS TABLE (stood_version bigint, stood_balance bigint, currency text, account_id text,
                   version bigint, transfer_id uuid, amount bigint, balance bigint, type text,
                   payment_id uuid, reason text, created_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT stood.version, stood.balance, stood.currency, e.account_id, e.version, e.transfer_id,
           e.amount, e.balance, e.type, e.payment_id, e.reason, e.created_at
      FROM (SELECT a.version, a.balance, a.currency FROM account a
             WHERE a.bucket = of_bucket AND a.tenant_id = of_tenant AND a.account_id = of_account
               AND instant IS NULL
             UNION ALL
            SELECT s.version, s.balance, s.currency
              FROM account_at(of_bucket, of_tenant, of_account, instant) AS s
             WHERE instant IS NOT NULL) AS stood
      LEFT JOIN LATERAL account_entries(of_bucket, of_tenant, of_account, 0,
                                        least(until, stood.version), max_count) AS e ON true
     ORDER BY e.version DESC
$$;

-- The accounts of some buckets that differ from what is proved of them, with what is proved and
-- what their entries since then come to. Where history below `floor` was detached, an account that
-- was never proved starts with the first entry that is left. Inlined: the caller's plan is used.
CREATE OR REPLACE FUNCTION account_since_proof(tenant integer, buckets smallint[], floor uuid)
    RETURNS TABLE (bucket smallint, tenant_id integer, account_id text, version bigint,
                   balance bigint, from_version bigint, start bigint, entries bigint,
                   amounts numeric)
    LANGUAGE sql STABLE AS $$
    SELECT a.bucket, a.tenant_id, a.account_id, a.version, a.balance,
           coalesce(m.version, first.version - 1, 0),
           coalesce(m.balance, first.balance - first.amount, 0),
           since.entries, since.amounts
      FROM account a
      LEFT JOIN account_proof m ON m.bucket = a.bucket AND m.tenant_id = a.tenant_id
           AND m.account_id = a.account_id
      LEFT JOIN LATERAL (
           SELECT e.version, e.balance, e.amount FROM entry e
            WHERE e.bucket = a.bucket AND e.tenant_id = a.tenant_id
              AND e.account_id = a.account_id AND m.version IS NULL
              AND $3 > uuid_floor('epoch')
            ORDER BY e.version LIMIT 1) AS first ON true
     CROSS JOIN LATERAL (
           SELECT count(*) AS entries, coalesce(sum(e.amount), 0) AS amounts FROM entry e
            WHERE e.bucket = a.bucket AND e.tenant_id = a.tenant_id
              AND e.account_id = a.account_id
              AND e.version > coalesce(m.version, first.version - 1, 0)) AS since
     WHERE ($1 IS NULL OR a.tenant_id = $1) AND a.bucket = ANY ($2)
       AND (m.version, m.balance) IS DISTINCT FROM (a.version, a.balance)
$$;
