-- Entries of accounts, account by account. A transfer lies in the shard of its payer: debits are
-- found there, credits are asked of every shard, each by its own key.

CREATE OR REPLACE FUNCTION account_entries(
    of_bucket smallint, of_tenant integer, of_account text, after bigint, until bigint,
    max_count integer) RETURNS SETOF entry LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT * FROM (
        SELECT of_bucket AS bucket, t.tenant_id, t.transfer_id, -t.amount AS amount,
               t.from_balance AS balance, t.from_version AS version, t.created_at,
               CASE WHEN t.payment_id IS NULL THEN 'ADJUSTMENT' ELSE 'PAYMENT' END AS type,
               t.from_account AS account_id, t.payment_id, t.reason
          FROM transfer t
         WHERE t.bucket = of_bucket AND t.tenant_id = of_tenant AND t.from_account = of_account
           AND t.from_version > after AND t.from_version <= until
         UNION ALL
        SELECT of_bucket, t.tenant_id, t.transfer_id, t.amount, t.to_balance, t.to_version,
               t.created_at,
               CASE WHEN t.payment_id IS NULL THEN 'ADJUSTMENT' ELSE 'PAYMENT' END,
               t.to_account, t.payment_id, t.reason
          FROM transfer t
         WHERE t.to_bucket = of_bucket AND t.tenant_id = of_tenant AND t.to_account = of_account
           AND t.to_version > after AND t.to_version <= until) AS e
     ORDER BY e.version DESC LIMIT max_count;
END $$;

CREATE OR REPLACE FUNCTION account_at(
    of_bucket smallint, of_tenant integer, of_account text, instant timestamptz)
    RETURNS TABLE (version bigint, balance bigint, currency text) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    known account;
    low bigint := 0;
    high bigint;
    middle bigint;
    one entry;
BEGIN
    SELECT a.* INTO known FROM account a
     WHERE a.bucket = of_bucket AND a.tenant_id = of_tenant AND a.account_id = of_account;
    IF known.account_id IS NULL THEN
        RETURN;
    END IF;
    high := known.version;
    WHILE low < high LOOP
        middle := (low + high + 1) / 2;
        SELECT e.* INTO one
          FROM account_entries(of_bucket, of_tenant, of_account, middle - 1, middle, 1) AS e;
        IF coalesce(one.created_at <= instant, true) THEN
            low := middle;
        ELSE
            high := middle - 1;
        END IF;
    END LOOP;
    SELECT e.* INTO one
      FROM account_entries(of_bucket, of_tenant, of_account, low, low + 1, 1) AS e;
    RETURN QUERY
    SELECT low, coalesce(one.balance - one.amount, known.balance), known.currency;
END $$;

CREATE OR REPLACE FUNCTION account_statement(
    of_bucket smallint, of_tenant integer, of_account text, instant timestamptz, until bigint,
    max_count integer)
    RETURNS TABLE (stood_version bigint, stood_balance bigint, currency text, account_id text,
                   version bigint, transfer_id uuid, amount bigint, balance bigint, type text,
                   payment_id uuid, reason text, created_at timestamptz)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    stood record;
BEGIN
    IF instant IS NULL THEN
        SELECT a.version, a.balance, a.currency INTO stood FROM account a
         WHERE a.bucket = of_bucket AND a.tenant_id = of_tenant AND a.account_id = of_account;
    ELSE
        SELECT s.version, s.balance, s.currency INTO stood
          FROM account_at(of_bucket, of_tenant, of_account, instant) AS s;
    END IF;
    IF stood.version IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT stood.version, stood.balance, stood.currency, e.account_id, e.version, e.transfer_id,
           e.amount, e.balance, e.type, e.payment_id, e.reason, e.created_at
      FROM (SELECT) AS one
      LEFT JOIN account_entries(of_bucket, of_tenant, of_account, 0,
                                least(until, stood.version), max_count) AS e ON true
     ORDER BY e.version DESC;
END $$;

CREATE OR REPLACE FUNCTION account_since_proof(tenant integer, buckets smallint[], floor uuid)
    RETURNS TABLE (bucket smallint, tenant_id integer, account_id text, version bigint,
                   balance bigint, from_version bigint, start bigint, entries bigint,
                   amounts numeric)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    detached boolean := floor > uuid_floor('epoch');
    one record;
    earliest entry;
    base bigint;
BEGIN
    FOR one IN
        SELECT a.bucket, a.tenant_id, a.account_id, a.version, a.balance,
               m.version AS proved_version, m.balance AS proved_balance
          FROM account a
          LEFT JOIN account_proof m ON m.bucket = a.bucket AND m.tenant_id = a.tenant_id
           AND m.account_id = a.account_id
         WHERE (tenant IS NULL OR a.tenant_id = tenant) AND a.bucket = ANY (buckets)
           AND (m.version, m.balance) IS DISTINCT FROM (a.version, a.balance) LOOP
        earliest := NULL;
        IF one.proved_version IS NULL AND detached THEN
            SELECT e.* INTO earliest
              FROM account_entries(one.bucket, one.tenant_id, one.account_id, 0,
                                   9223372036854775807, NULL) AS e
             ORDER BY e.version LIMIT 1;
        END IF;
        base := coalesce(one.proved_version, earliest.version - 1, 0);
        RETURN QUERY
        SELECT one.bucket, one.tenant_id, one.account_id, one.version, one.balance, base,
               coalesce(one.proved_balance, earliest.balance - earliest.amount, 0),
               count(*), coalesce(sum(e.amount), 0)
          FROM account_entries(one.bucket, one.tenant_id, one.account_id, base,
                               9223372036854775807, NULL) AS e;
    END LOOP;
END $$;
