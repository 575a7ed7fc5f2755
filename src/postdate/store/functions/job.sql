-- Jobs: inserted, and removed when they are history.
--
-- Removing is the owner's right, and only through these functions, which say what may go: jobs that
-- have ended, with everything that belongs to them. Small sets, so that locks are short;
-- `postdate.prune` opens the trigger that guards facts.

-- Jobs as rows, from one array for each column. Every element of an array costs the driver more
-- than a row costs the server. So a column that is NULL throughout comes as an empty array, which
-- unnest pads with NULL; one value for all rows comes as an array of that one, which coalesce
-- repeats; and the bucket is read from the id. Arrays side by side in FROM are laid down one by one
-- before they are read, in the select list they are walked; what all rows share is a subselect,
-- which is asked once. The planner inlines this function.
CREATE OR REPLACE FUNCTION job_rows(
    ids uuid[], tenants integer[], lanes integer[], dues timestamptz[], effectives timestamptz[],
    expiries timestamptz[], destinations text[], policies text[], payloads bytea[], types text[],
    refs text[], spreads integer[], metadatas text[], descriptions text[], schedules uuid[],
    origins uuid[], traceparents text[], actors text[], keys uuid[], at timestamptz)
    RETURNS SETOF job LANGUAGE sql STABLE AS $$
    SELECT bucket_of(id), coalesce(tenant, (SELECT tenants[1])), id,
           coalesce(lane, (SELECT lanes[1])), coalesce(due, (SELECT dues[1])),
           coalesce(effective, (SELECT effectives[1])), expiry, at,
           coalesce((SELECT destinations[1]::jsonb WHERE cardinality(destinations) = 1),
                    destination::jsonb),
           policy::jsonb, payload,
           CASE WHEN payload IS NOT NULL THEN coalesce(type, (SELECT types[1])) END, ref, spread,
           metadata::jsonb, description, schedule, origin, traceparent,
           coalesce(actor, (SELECT actors[1])), key
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(lanes) AS lane,
                   unnest(dues) AS due, unnest(effectives) AS effective,
                   unnest(expiries) AS expiry, unnest(destinations) AS destination,
                   unnest(policies) AS policy, unnest(payloads) AS payload, unnest(types) AS type,
                   unnest(refs) AS ref, unnest(spreads) AS spread,
                   unnest(metadatas) AS metadata, unnest(descriptions) AS description,
                   unnest(schedules) AS schedule, unnest(origins) AS origin,
                   unnest(traceparents) AS traceparent, unnest(actors) AS actor,
                   unnest(keys) AS key) AS new
$$;

-- Insert jobs with their timers, and put them into the outbox, in one round trip. Plain statements
-- of one table each, for a sharded PostgreSQL: reading the arguments once more for the digest costs
-- less than to carry whole rows from one statement to the next.
CREATE OR REPLACE FUNCTION job_insert(
    ids uuid[], tenants integer[], lanes integer[], dues timestamptz[], effectives timestamptz[],
    expiries timestamptz[], destinations text[], policies text[], payloads bytea[], types text[],
    refs text[], spreads integer[], metadatas text[], descriptions text[], schedules uuid[],
    origins uuid[], traceparents text[], actors text[], keys uuid[], at timestamptz)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    first_lane integer := lanes[1];
    first_effective timestamptz := effectives[1];
BEGIN
    INSERT INTO job
    SELECT * FROM job_rows(ids, tenants, lanes, dues, effectives, expiries, destinations, policies,
                          payloads, types, refs, spreads, metadatas, descriptions, schedules,
                          origins, traceparents, actors, keys, at);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), coalesce(lane, first_lane), id,
           coalesce(effective, first_effective)
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(lanes) AS lane,
                   unnest(effectives) AS effective) AS new;
    INSERT INTO outbox (bucket, tenant_id, time, subject, event_id, type, digest)
    SELECT j.bucket, j.tenant_id, clock(), j.job_id, j.job_id, 'job.accepted', job_digest(j)
      FROM job_rows(ids, tenants, lanes, dues, effectives, expiries, destinations, policies,
                          payloads, types, refs, spreads, metadatas, descriptions, schedules,
                          origins, traceparents, actors, keys, at) AS j;
END $$;

CREATE OR REPLACE FUNCTION job_remove(in_bucket smallint, in_tenant integer, ids uuid[])
    RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    removed integer;
BEGIN
    PERFORM set_config('postdate.prune', 'on', true);
    DELETE FROM attempt WHERE bucket = in_bucket AND subject = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM job_revision
        WHERE bucket = in_bucket AND job_id = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM outcome WHERE bucket = in_bucket AND subject = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM job WHERE bucket = in_bucket AND tenant_id = in_tenant AND job_id = ANY(ids);
    GET DIAGNOSTICS removed = ROW_COUNT;
    PERFORM set_config('postdate.prune', 'off', true);
    RETURN removed;
END $$;

-- The failed ones among these jobs: the dead letters that a person wants to be rid of.
CREATE OR REPLACE FUNCTION job_purge(in_bucket smallint, in_tenant integer, ids uuid[])
    RETURNS uuid[] LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    failed uuid[] := ARRAY(
        SELECT j.job_id FROM job j JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
         WHERE j.bucket = in_bucket AND j.tenant_id = in_tenant AND j.job_id = ANY(ids)
           AND o.status = 'FAILED' ORDER BY 1);
BEGIN
    PERFORM job_remove(in_bucket, in_tenant, failed);
    RETURN failed;
END $$;

-- Walk a tenant's jobs of a bucket from an id on, remove those that ended before an instant, and
-- say where to go on: NULL at the end. One node at a time walks a bucket.
CREATE OR REPLACE FUNCTION job_prune(
    in_bucket smallint, in_tenant integer, before timestamptz, after uuid, most integer,
    OUT removed integer, OUT last uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = 'off' AS $$
DECLARE
    walked uuid[];
BEGIN
    removed := 0;
    IF NOT pg_try_advisory_xact_lock(hashtext('job_prune'), in_bucket) THEN
        RETURN;
    END IF;
    walked := ARRAY(
        SELECT job_id FROM job WHERE bucket = in_bucket AND tenant_id = in_tenant
           AND job_id > after AND job_id < uuid_floor(before) ORDER BY job_id LIMIT most);
    IF cardinality(walked) = most THEN
        last := walked[most];
    END IF;
    removed := job_remove(in_bucket, in_tenant, ARRAY(
        SELECT subject FROM outcome WHERE bucket = in_bucket AND subject = ANY(walked)
           AND finished_at < before));
    IF removed > 0 THEN
        INSERT INTO job_pruned AS p VALUES (in_tenant, job_prune.before)
        ON CONFLICT (tenant_id) DO UPDATE SET before = excluded.before
         WHERE p.before < excluded.before;
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION job_insert, job_remove, job_purge, job_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_insert, job_purge, job_prune TO postdate_writer;
