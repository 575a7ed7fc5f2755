-- Keys of requests, as Citus can find them.

CREATE OR REPLACE FUNCTION idempotency_find(
    buckets smallint[], scopes smallint[], tenants integer[], keys uuid[])
    RETURNS SETOF idempotency LANGUAGE plpgsql STABLE AS $$
DECLARE
    first_scope smallint := scopes[1];
    first_tenant integer := tenants[1];
BEGIN
    RETURN QUERY
    SELECT i.* FROM idempotency i
      JOIN (SELECT unnest(buckets) AS bucket, unnest(scopes) AS scope, unnest(tenants) AS tenant_id,
                   unnest(keys) AS key) AS wanted
        ON i.bucket = wanted.bucket AND i.scope = coalesce(wanted.scope, first_scope)
       AND i.tenant_id = coalesce(wanted.tenant_id, first_tenant) AND i.key = wanted.key
     WHERE i.bucket = ANY (buckets);
END $$;
