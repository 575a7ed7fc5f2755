-- Jobs: inserted, and removed when they are history.
--
-- Removing is the owner's right, and only through these functions, which say what may go: jobs that
-- have ended, with everything that belongs to them. Small sets, so that locks are short;
-- `postdate.prune` opens the trigger that guards facts.

-- Insert jobs, their timers and the events that tell of them, in one round trip. Every element of
-- an array costs the driver more than a row costs the server. So a column that is NULL throughout
-- comes as an empty array, which unnest pads with NULL; one value for all rows comes as an array of
-- that one, which coalesce repeats; and the bucket is read from the id. Arrays side by side in FROM
-- are laid down one by one before they are read, in the select list they are walked.
CREATE OR REPLACE FUNCTION job_insert(
    ids uuid[], tenants integer[], lanes integer[], dues timestamptz[], effectives timestamptz[],
    expiries timestamptz[], destinations text[], policies text[], payloads bytea[], types text[],
    refs text[], spreads integer[], metadatas text[], descriptions text[], schedules uuid[],
    origins uuid[], traceparents text[], at timestamptz, event_ids uuid[], actors text[],
    names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := tenants[1];
    first_lane integer := lanes[1];
    first_due timestamptz := dues[1];
    first_effective timestamptz := effectives[1];
    first_type text := types[1];
    first_actor text := actors[1];
    first_name text := names[1];
    -- JSON that all rows share is made once.
    shared_destination jsonb := CASE WHEN cardinality(destinations) = 1
        THEN destinations[1]::jsonb END;
    shared_data jsonb := CASE WHEN cardinality(names) = 1 AND cardinality(dues) = 1
        THEN jsonb_build_object('lane', names[1], 'due_at', instant_text(dues[1])) END;
BEGIN
    INSERT INTO job (bucket, tenant_id, job_id, lane_id, due_at, effective_at, expires_at,
                     destination, policy, payload, content_type, payload_ref, spread_seconds,
                     metadata, description, schedule_id, origin_id, traceparent, created_at)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), id, coalesce(lane, first_lane),
           coalesce(due, first_due), coalesce(effective, first_effective), expiry,
           coalesce(shared_destination, destination::jsonb), policy::jsonb, payload,
           CASE WHEN payload IS NOT NULL THEN coalesce(type, first_type) END, ref, spread,
           metadata::jsonb, description, schedule, origin, traceparent, at
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(lanes) AS lane,
                   unnest(dues) AS due, unnest(effectives) AS effective,
                   unnest(expiries) AS expiry, unnest(destinations) AS destination,
                   unnest(policies) AS policy, unnest(payloads) AS payload, unnest(types) AS type,
                   unnest(refs) AS ref, unnest(spreads) AS spread,
                   unnest(metadatas) AS metadata, unnest(descriptions) AS description,
                   unnest(schedules) AS schedule, unnest(origins) AS origin,
                   unnest(traceparents) AS traceparent) AS new;
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), coalesce(lane, first_lane), id,
           coalesce(effective, first_effective)
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(lanes) AS lane,
                   unnest(effectives) AS effective) AS new;
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), id, event_id, 'job.accepted',
           coalesce(actor, first_actor),
           coalesce(shared_data, jsonb_build_object(
               'lane', coalesce(lane, first_name),
               'due_at', instant_text(coalesce(due, first_due))))
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(event_ids) AS event_id,
                   unnest(actors) AS actor, unnest(names) AS lane, unnest(dues) AS due) AS new;
    INSERT INTO outbox (bucket, tenant_id, time, subject, event_id, type)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), clock(), id, event_id, 'job.accepted'
      FROM (SELECT unnest(ids) AS id, unnest(tenants) AS tenant, unnest(event_ids) AS event_id)
           AS new;
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
END $$;

REVOKE EXECUTE ON FUNCTION job_insert, job_remove, job_purge, job_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_insert, job_purge, job_prune TO postdate_writer;
