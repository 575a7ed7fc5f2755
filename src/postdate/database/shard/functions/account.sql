-- Proofs of accounts, account by account: each lives in one shard with its entries.

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
            SELECT e.* INTO earliest FROM entry e
             WHERE e.bucket = one.bucket AND e.tenant_id = one.tenant_id
               AND e.account_id = one.account_id
             ORDER BY e.version LIMIT 1;
        END IF;
        base := coalesce(one.proved_version, earliest.version - 1, 0);
        RETURN QUERY
        SELECT one.bucket, one.tenant_id, one.account_id, one.version, one.balance, base,
               coalesce(one.proved_balance, earliest.balance - earliest.amount, 0),
               count(*), coalesce(sum(e.amount), 0)
          FROM entry e
         WHERE e.bucket = one.bucket AND e.tenant_id = one.tenant_id
           AND e.account_id = one.account_id AND e.version > base;
    END LOOP;
END $$;
