-- Jobs: what to do at an instant, immutable; changes before execution are revisions.

-- The bucket that an id carries, the same as model.ids.bucket_of.
CREATE FUNCTION bucket_of(id uuid) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT (get_byte(uuid_send(id), 7) & 63)::smallint';

CREATE TABLE job (
    bucket         smallint NOT NULL,
    tenant_id      integer NOT NULL,
    job_id         uuid NOT NULL,
    lane_id        integer NOT NULL,
    -- The nominal instant and the one after spreading; the timer carries the latter.
    due_at         timestamptz NOT NULL,
    effective_at   timestamptz NOT NULL,
    expires_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock(),
    destination    jsonb NOT NULL,
    -- Retry policy and timeout, as given; absent members follow the tenant's defaults.
    policy         jsonb,
    payload        bytea,
    content_type   text,
    payload_ref    text,
    spread_seconds integer,
    metadata       jsonb,
    description    text,
    schedule_id    uuid,
    origin_id      uuid,
    traceparent    text,
    PRIMARY KEY (bucket, tenant_id, job_id),
    CHECK (payload IS NULL OR payload_ref IS NULL)
) PARTITION BY RANGE (job_id);
CREATE INDEX job_schedule ON job (bucket, schedule_id, job_id) WHERE schedule_id IS NOT NULL;

-- A change of time, payload or policy before execution; timer.revision says which one counts. Every
-- revision is whole but for the payload, which may be large: payload_revision says which revision
-- carries it, 0 being the job itself.
CREATE TABLE job_revision (
    bucket           smallint NOT NULL,
    tenant_id        integer NOT NULL,
    job_id           uuid NOT NULL,
    revision         integer NOT NULL CHECK (revision > 0),
    due_at           timestamptz NOT NULL,
    effective_at     timestamptz NOT NULL,
    expires_at       timestamptz,
    policy           jsonb,
    payload_revision integer NOT NULL CHECK (payload_revision BETWEEN 0 AND revision),
    payload          bytea,
    content_type     text,
    payload_ref      text,
    created_at       timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, job_id, revision),
    CHECK (payload IS NULL OR payload_ref IS NULL),
    CHECK (payload_revision = revision OR (payload IS NULL AND payload_ref IS NULL))
) PARTITION BY RANGE (job_id);

SELECT table_guard(t, fact => true) FROM unnest('{job,job_revision}'::regclass[]) AS t;

-- Every node asks every other second which lanes have changed.
CREATE INDEX lane_changed ON lane (changed_at);

-- Insert jobs, their timers and the events that tell of them, in one round trip. Every element of
-- an array costs the driver more than a row costs the server. So a column that is NULL throughout
-- comes as an empty array, which unnest pads with NULL; one value for all rows comes as an array of
-- that one, which coalesce repeats; and the bucket is read from the id.
CREATE FUNCTION job_insert(
    ids uuid[], tenants integer[], lanes integer[], dues timestamptz[], effectives timestamptz[],
    expiries timestamptz[], destinations text[], policies text[], payloads bytea[], types text[],
    refs text[], spreads integer[], metadatas text[], descriptions text[], schedules uuid[],
    origins uuid[], traceparents text[], at timestamptz, event_ids uuid[], actors text[],
    names text[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    -- JSON that all rows share is made once.
    shared_destination jsonb := CASE WHEN cardinality(destinations) = 1
        THEN destinations[1]::jsonb END;
    shared_data jsonb := CASE WHEN cardinality(names) = 1 AND cardinality(dues) = 1
        THEN jsonb_build_object('lane', names[1], 'due_at', dues[1]) END;
BEGIN
    INSERT INTO job (bucket, tenant_id, job_id, lane_id, due_at, effective_at, expires_at,
                     destination, policy, payload, content_type, payload_ref, spread_seconds,
                     metadata, description, schedule_id, origin_id, traceparent, created_at)
    SELECT bucket_of(id), coalesce(tenant, tenants[1]), id, coalesce(lane, lanes[1]),
           coalesce(due, dues[1]), coalesce(effective, effectives[1]), expiry,
           coalesce(shared_destination, destination::jsonb), policy::jsonb, payload,
           CASE WHEN payload IS NOT NULL THEN coalesce(type, types[1]) END, ref, spread,
           metadata::jsonb, description, schedule, origin, traceparent, at
      FROM unnest(ids, tenants, lanes, dues, effectives, expiries, destinations, policies,
                  payloads, types, refs, spreads, metadatas, descriptions, schedules, origins,
                  traceparents)
           AS new (id, tenant, lane, due, effective, expiry, destination, policy, payload, type,
                   ref, spread, metadata, description, schedule, origin, traceparent);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket_of(id), coalesce(tenant, tenants[1]), coalesce(lane, lanes[1]), id,
           coalesce(effective, effectives[1])
      FROM unnest(ids, tenants, lanes, effectives) AS new (id, tenant, lane, effective);
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket_of(id), coalesce(tenant, tenants[1]), id, event_id, 'job.accepted',
           coalesce(actor, actors[1]),
           coalesce(shared_data, jsonb_build_object('lane', coalesce(lane, names[1]),
                                                    'due_at', coalesce(due, dues[1])))
      FROM unnest(ids, tenants, event_ids, actors, names, dues)
           AS new (id, tenant, event_id, actor, lane, due);
END $$;
REVOKE EXECUTE ON FUNCTION job_insert FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_insert TO postdate_writer;

-- Removing old history is the owner's right, and only through these functions, which say what may
-- go: jobs that have ended, with everything that belongs to them. Small sets, so that locks are
-- short; `postdate.prune` opens the trigger that guards facts.

CREATE FUNCTION job_remove(in_bucket smallint, in_tenant integer, ids uuid[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
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
CREATE FUNCTION job_purge(in_bucket smallint, in_tenant integer, ids uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
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
CREATE FUNCTION job_prune(in_bucket smallint, in_tenant integer, before timestamptz, after uuid,
                          most integer, OUT removed integer, OUT last uuid)
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

-- Walk a tenant's keys of jobs (or of redrives) in a bucket from a key on, forget those that are
-- older than an instant and whose job had ended by then or is gone, and say where to go on: NULL at
-- the end. The key of a job that is due in ten years is as old as the job. A job's own bucket is
-- another than that of its key, so its rows are looked up by their own keys.
CREATE FUNCTION idempotency_prune(in_bucket smallint, in_tenant integer, in_scope text,
                                  before timestamptz, after text, most integer,
                                  OUT removed integer, OUT last text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = 'off' AS $$
DECLARE
    walked text[];
    old text[];
    jobs uuid[];
    wanted uuid[];
BEGIN
    SELECT array_agg(key ORDER BY key), array_agg(key) FILTER (WHERE created_at < before),
           array_agg(subject) FILTER (WHERE created_at < before AND subject IS NOT NULL)
      INTO walked, old, jobs
      FROM (SELECT key, subject, created_at FROM idempotency
             WHERE bucket = in_bucket AND tenant_id = in_tenant AND scope = in_scope
               AND key > after COLLATE "C" ORDER BY key LIMIT most) AS kept;
    IF cardinality(walked) = most THEN
        last := walked[most];
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

REVOKE EXECUTE ON FUNCTION job_remove, job_purge, job_prune, idempotency_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_purge, job_prune, idempotency_prune TO postdate_writer;
