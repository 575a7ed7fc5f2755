-- Keys of requests: found, inserted, and forgotten when they can no longer be repeated.

-- The rows of the known keys. LATERAL and OFFSET 0 pin one lookup by primary key
-- for each: a plan that was cached while the table was small and freshly analysed would otherwise
-- hash the whole index, for ever. The planner inlines this function.
CREATE OR REPLACE FUNCTION idempotency_find(
    buckets smallint[], scopes smallint[], tenants integer[], keys uuid[])
    RETURNS SETOF idempotency LANGUAGE sql STABLE AS $$
    SELECT found.*
      FROM (SELECT unnest(buckets) AS bucket, unnest(scopes) AS scope, unnest(tenants) AS tenant_id,
                   unnest(keys) AS key) AS wanted
     CROSS JOIN LATERAL (
           SELECT * FROM idempotency i
            WHERE i.bucket = wanted.bucket AND i.scope = coalesce(wanted.scope, scopes[1])
              AND i.tenant_id = coalesce(wanted.tenant_id, tenants[1]) AND i.key = wanted.key
           OFFSET 0) AS found
$$;

-- Insert keys. Where another transaction has used one of them meanwhile, the primary key refuses
-- it: ON CONFLICT would write 48 bytes more to the log for every row, to confirm it.
CREATE OR REPLACE FUNCTION idempotency_insert(new idempotency_columns)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_scope smallint := new.scope[1];
    first_tenant integer := new.tenant_id[1];
    first_instant timestamptz := new.created_at[1];
BEGIN
    INSERT INTO idempotency (bucket, scope, tenant_id, key, fingerprint, subject, created_at, kept)
    SELECT bucket, coalesce(scope, first_scope), coalesce(tenant, first_tenant), key, fingerprint,
           subject, coalesce(instant, first_instant), kept
      FROM (SELECT unnest(new.bucket) AS bucket, unnest(new.scope) AS scope,
                   unnest(new.tenant_id) AS tenant, unnest(new.hash) AS key,
                   unnest(new.fingerprint) AS fingerprint, unnest(new.subject) AS subject,
                   unnest(new.created_at) AS instant, unnest(new.kept) AS kept) AS given;
END $$;

-- Whether a key led to this job or payment: the id ends in the hash of the key and the request,
-- apart from the two bits that every id has in common.
CREATE OR REPLACE FUNCTION idempotency_fits(key uuid, fingerprint uuid, subject uuid)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT set_byte(tail, 0, get_byte(tail, 0) & 63 | 128) = substring(uuid_send(subject) FROM 9)
      FROM (SELECT substring(sha256(uuid_send(key) || uuid_send(fingerprint)) FOR 8)) AS made (tail)
$$;

-- Walk a tenant's keys of jobs (or of redrives) in a bucket from a key on, forget the keys that are
-- older than an instant and whose job had ended by then or is gone, and say where to go on: NULL at
-- the end. The key of a job that is due in ten years is as old as the job. A job's own bucket is
-- another than that of its key, so its rows are found by their own keys.
CREATE OR REPLACE FUNCTION idempotency_prune(
    in_bucket smallint, in_tenant integer, in_scope smallint, before timestamptz, after uuid,
    max_count integer, OUT removed integer, OUT last uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = 'off' AS $$
DECLARE
    walked uuid[];
    old uuid[];
    jobs uuid[];
    wanted uuid[];
BEGIN
    SELECT array_agg(key ORDER BY key), array_agg(key) FILTER (WHERE created_at < before),
           array_agg(subject) FILTER (WHERE created_at < before AND subject IS NOT NULL)
      INTO walked, old, jobs
      FROM (SELECT key, subject, created_at FROM idempotency
             WHERE bucket = in_bucket AND tenant_id = in_tenant AND scope = in_scope
               AND key > after ORDER BY key LIMIT max_count) AS kept;
    IF cardinality(walked) = max_count THEN
        last := walked[max_count];
    END IF;
    wanted := ARRAY(
        SELECT t.subject FROM unnest(jobs) AS job (id)
          JOIN timer t ON t.bucket = bucket_of(job.id) AND t.subject = job.id
        UNION ALL
        SELECT o.subject FROM unnest(jobs) AS job (id)
          JOIN outcome o ON o.bucket = bucket_of(job.id) AND o.subject = job.id
         WHERE o.finished_at >= before);
    DELETE FROM idempotency
     WHERE bucket = in_bucket AND tenant_id = in_tenant AND scope = in_scope AND key = ANY(old)
       AND (subject IS NULL OR subject <> ALL (wanted));
    GET DIAGNOSTICS removed = ROW_COUNT;
END $$;

REVOKE EXECUTE ON FUNCTION idempotency_insert, idempotency_fits, idempotency_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION idempotency_insert, idempotency_fits, idempotency_prune TO
    postdate_writer;
