-- Tenants: whose transaction this is, and where a tenant's own rows live.

-- The tenant of the current transaction, set by SET LOCAL from a validated number. Without it a
-- reader sees no row at all.
CREATE OR REPLACE FUNCTION current_tenant() RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT nullif(current_setting('postdate.tenant_id', true), '')::integer$$;

-- The bucket in which a tenant's own rows live.
CREATE OR REPLACE FUNCTION tenant_bucket(tenant_id integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT (tenant_id % 64)::smallint';
