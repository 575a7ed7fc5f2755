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
CREATE OR REPLACE FUNCTION job_rows(new job_columns, at timestamptz)
    RETURNS SETOF job LANGUAGE sql STABLE AS $$
    SELECT bucket_of(job_id), coalesce(tenant_id, (SELECT new.tenant_id[1])), job_id,
           coalesce(lane_id, (SELECT new.lane_id[1])), coalesce(due_at, (SELECT new.due_at[1])),
           coalesce(effective_at, (SELECT new.effective_at[1])), expires_at, at,
           coalesce((SELECT new.destination[1]::jsonb WHERE cardinality(new.destination) = 1),
                    destination::jsonb),
           policy::jsonb, payload,
           CASE WHEN payload IS NOT NULL
                THEN coalesce(content_type, (SELECT new.content_type[1])) END,
           payload_ref, spread_seconds, metadata::jsonb, description, schedule_id, origin_id,
           traceparent, coalesce(actor, (SELECT new.actor[1])), idempotency_key,
           unique_by::jsonb, key
      FROM (SELECT unnest(new.job_id) AS job_id, unnest(new.tenant_id) AS tenant_id,
                   unnest(new.lane_id) AS lane_id, unnest(new.due_at) AS due_at,
                   unnest(new.effective_at) AS effective_at, unnest(new.expires_at) AS expires_at,
                   unnest(new.destination) AS destination, unnest(new.policy) AS policy,
                   unnest(new.payload) AS payload, unnest(new.content_type) AS content_type,
                   unnest(new.payload_ref) AS payload_ref,
                   unnest(new.spread_seconds) AS spread_seconds,
                   unnest(new.metadata) AS metadata, unnest(new.description) AS description,
                   unnest(new.schedule_id) AS schedule_id, unnest(new.origin_id) AS origin_id,
                   unnest(new.traceparent) AS traceparent, unnest(new.actor) AS actor,
                   unnest(new.idempotency_key) AS idempotency_key,
                   unnest(new.unique_by) AS unique_by, unnest(new.key) AS key) AS given
$$;

-- Insert jobs with their timers, and put them into the outbox. Plain statements of one table each,
-- for a sharded PostgreSQL: reading the arrays once more for the digest costs less than to carry
-- whole rows from one statement to the next.
CREATE OR REPLACE FUNCTION job_insert(new job_columns, at timestamptz)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first_tenant integer := new.tenant_id[1];
    first_lane integer := new.lane_id[1];
    first_effective timestamptz := new.effective_at[1];
BEGIN
    INSERT INTO job SELECT * FROM job_rows(new, at);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at, key_id)
    SELECT bucket_of(id), coalesce(tenant, first_tenant), coalesce(lane, first_lane), id,
           coalesce(effective, first_effective), key_id
      FROM (SELECT unnest(new.job_id) AS id, unnest(new.tenant_id) AS tenant,
                   unnest(new.lane_id) AS lane, unnest(new.effective_at) AS effective,
                   unnest(new.key_id) AS key_id) AS given;
    -- The inner OFFSET 0 makes plain columns of what is computed, for else the planner does not
    -- inline the digest; the outer has digests taken before the rows are sorted, which are then
    -- narrow.
    INSERT INTO outbox (bucket, tenant_id, types, subjects, digests)
    SELECT bucket, tenant_id, '{job.accepted}', array_agg(job_id ORDER BY job_id),
           string_agg(digest, '' ORDER BY job_id)
      FROM (SELECT j.bucket, j.tenant_id, j.job_id, job_digest(ROW(j.*)::job) AS digest
              FROM (SELECT * FROM job_rows(new, at) OFFSET 0) AS j
            OFFSET 0) AS accepted
     GROUP BY bucket, tenant_id;
END $$;

-- Accept jobs in one round trip, unless their tenant is halted. JSON comes as text, encoded once by
-- the intake. The keys last: a transaction that waits for a key waits for nothing else.
CREATE OR REPLACE FUNCTION job_accept(
    new job_columns, at timestamptz, keys idempotency_columns DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM halt_refuse_new(new.tenant_id, new.schedule_id);
    PERFORM job_insert(new, at);
    IF keys.hash IS NOT NULL THEN
        PERFORM idempotency_insert(keys);
    END IF;
END $$;

-- Which of these jobs of a bucket, in order, had an attempt without a clear answer.
CREATE OR REPLACE FUNCTION job_doubted(of_bucket smallint, ids uuid[]) RETURNS uuid[]
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(DISTINCT a.subject), '{}') FROM attempt a
     WHERE a.bucket = of_bucket AND a.subject = ANY (ids) AND a.status <> 'FAILED'
       AND a.subject BETWEEN ids[1] AND ids[cardinality(ids)]
$$;

-- What all attempts so far let us know of a job that is cancelled; as in job/change/change.py.
CREATE OR REPLACE FUNCTION job_cancel_result(t timer) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN t.claimed_at IS NOT NULL THEN 'stopped_in_flight'
                WHEN job_doubted(t.bucket, ARRAY[t.subject]) <> '{}' THEN 'cancelled_in_doubt'
                WHEN t.attempt > 0 THEN 'cancelled_after_failure'
                ELSE 'cancelled_before_claim' END
$$;

-- The hash under which the row of a unique key is kept, as slot_of in job/store/job_unique.py
-- counts it; its first byte gives the bucket.
CREATE OR REPLACE FUNCTION job_unique_hash(of_tenant integer, key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(substring(sha256(convert_to('unique/' || of_tenant || '/' || key, 'UTF8'))
                            FOR 16), 'hex')::uuid
$$;
CREATE OR REPLACE FUNCTION job_unique_bucket(hash uuid) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT (get_byte(uuid_send(hash), 0) & 63)::smallint';

-- Forget the unique keys whose newest jobs these are, in the order in which keys are locked.
CREATE OR REPLACE FUNCTION job_unique_forget(in_bucket smallint, in_tenant integer, ids uuid[])
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT DISTINCT job_unique_bucket(hash) AS bucket, hash
          FROM (SELECT job_unique_hash(in_tenant, j.unique_by ->> 'key') AS hash FROM job j
                 WHERE j.bucket = in_bucket AND j.tenant_id = in_tenant AND j.job_id = ANY (ids)
                   AND j.unique_by IS NOT NULL OFFSET 0) AS named
         ORDER BY 1, 2
    LOOP
        DELETE FROM job_unique u WHERE u.bucket = one.bucket AND u.tenant_id = in_tenant
           AND u.key = one.hash AND u.job_id = ANY (ids);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION job_remove(in_bucket smallint, in_tenant integer, ids uuid[])
    RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    removed integer;
BEGIN
    PERFORM job_unique_forget(in_bucket, in_tenant, ids);
    SET LOCAL postdate.prune = 'on';
    DELETE FROM attempt WHERE bucket = in_bucket AND subject = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM attempt_log
        WHERE bucket = in_bucket AND job_id = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM job_progress
        WHERE bucket = in_bucket AND job_id = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM job_revision
        WHERE bucket = in_bucket AND job_id = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM outcome WHERE bucket = in_bucket AND subject = ANY(ids) AND tenant_id = in_tenant;
    DELETE FROM job WHERE bucket = in_bucket AND tenant_id = in_tenant AND job_id = ANY(ids);
    GET DIAGNOSTICS removed = ROW_COUNT;
    SET LOCAL postdate.prune = 'off';
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

-- Tell of it as the role that removed them: of two roles in one transaction, a sharded PostgreSQL
-- lets only the first write to a shard.
CREATE OR REPLACE FUNCTION job_purge_record(
    buckets smallint[], tenants integer[], subjects uuid[], ids uuid[], types text[],
    actors text[], datas jsonb[])
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM event_insert(buckets, tenants, subjects, ids, types, actors, datas);
END $$;

-- Walk a tenant's jobs of a bucket from an id on, remove the jobs that ended before an instant, and
-- say where to go on: NULL at the end. One node at a time walks a bucket.
CREATE OR REPLACE FUNCTION job_prune(
    in_bucket smallint, in_tenant integer, before timestamptz, after uuid, max_count integer,
    OUT removed integer, OUT last uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = 'off' AS $$
DECLARE
    walked uuid[];
BEGIN
    removed := 0;
    PERFORM FROM named_lock l WHERE l.name = 'job_prune' AND l.number = in_bucket
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    walked := ARRAY(
        SELECT job_id FROM job WHERE bucket = in_bucket AND tenant_id = in_tenant
           AND job_id > after AND job_id < uuid_floor(before) ORDER BY job_id LIMIT max_count);
    IF cardinality(walked) = max_count THEN
        last := walked[max_count];
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

-- Ask the workers of running jobs of one bucket to stop within some seconds. The caller has locked
-- their timers. A second request may only bring the deadline forward; `fresh` says whether it did.
CREATE OR REPLACE FUNCTION job_cancel_request(
    of_bucket smallint, of_tenant integer, ids uuid[], by_actor text, seconds float8)
    RETURNS TABLE (job_id uuid, deadline timestamptz, fresh boolean)
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    wanted timestamptz := clock() + make_interval(secs => seconds);
    asked uuid[] := ARRAY(
        SELECT p.job_id FROM job_progress p
         WHERE p.bucket = of_bucket AND p.job_id = ANY (ids) AND p.cancel_deadline <= wanted);
    called uuid[] := ARRAY(
        SELECT j.job_id FROM job j
         WHERE j.bucket = of_bucket AND j.tenant_id = of_tenant AND j.job_id = ANY (ids)
           AND j.destination ? 'cancel_url');
BEGIN
    RETURN QUERY
    INSERT INTO job_progress AS p (bucket, tenant_id, job_id, cancel_requested_at,
                                   cancel_requested_by, cancel_deadline, cancel_call_at)
    SELECT of_bucket, of_tenant, id, clock(), by_actor, wanted,
           CASE WHEN id = ANY (called) THEN clock() END FROM unnest(ids) AS id
    ON CONFLICT (bucket, job_id) DO UPDATE
       SET cancel_requested_at = coalesce(p.cancel_requested_at, excluded.cancel_requested_at),
           cancel_requested_by = coalesce(p.cancel_requested_by, excluded.cancel_requested_by),
           cancel_deadline = least(p.cancel_deadline, excluded.cancel_deadline),
           cancel_call_at = CASE WHEN p.cancel_deadline <= excluded.cancel_deadline
                                 THEN p.cancel_call_at ELSE excluded.cancel_call_at END
    RETURNING p.job_id, p.cancel_deadline, p.job_id <> ALL (asked);
END $$;

REVOKE EXECUTE ON FUNCTION job_doubted, job_cancel_result, job_cancel_request, job_insert,
    job_accept, job_unique_hash, job_unique_bucket, job_unique_forget, job_remove, job_purge,
    job_purge_record, job_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_doubted, job_cancel_request, job_insert, job_accept, job_unique_hash,
    job_unique_bucket, job_purge, job_purge_record, job_prune TO postdate_writer;

-- The status of a job: how it ended, or what its timer says. No row stores it; this is the one
-- place where SQL derives it, and the planner folds it into the statement.
CREATE OR REPLACE FUNCTION job_status(
    timer_due_at timestamptz, claimed_at timestamptz, now timestamptz, ended text DEFAULT NULL)
    RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN ended IS NOT NULL THEN ended
                WHEN timer_due_at = 'infinity' THEN 'UNKNOWN'
                WHEN timer_due_at <= now THEN 'READY'
                WHEN claimed_at IS NOT NULL THEN 'RUNNING'
                ELSE 'PENDING' END
$$;

-- Whole jobs by id, of one tenant, as one statement; see `payment_read`. Most jobs wait, untried
-- and unchanged: attempts, outcomes and revisions are joined only for the others.
CREATE OR REPLACE FUNCTION job_read(
    of_tenant integer, buckets smallint[], ids uuid[], first_id uuid, last_id uuid,
    with_payload boolean
) RETURNS TABLE (
    job_id uuid, lane_id integer, lane text, status text, due_at timestamptz,
    effective_at timestamptz, expires_at timestamptz, created_at timestamptz, destination text,
    policy text, payload bytea, content_type text, payload_ref text, spread_seconds integer,
    metadata jsonb, description text, schedule_id uuid, origin_id uuid, revision integer,
    attempt integer, timer_due_at timestamptz, claimed_at timestamptz, outcome_due_at timestamptz,
    started_at timestamptz, finished_at timestamptz, code text, error text, http_status smallint,
    worker_id uuid, in_doubt boolean, result bytea, unique_by text, key text, priority smallint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    found integer;
BEGIN
    -- Where a transaction has a tenant already, that one decides.
    IF current_tenant() IS NULL THEN
        PERFORM set_config('postdate.tenant_id', of_tenant::text, true);
    END IF;
    RETURN QUERY
    SELECT j.job_id, j.lane_id, l.name,
           job_status(t.due_at, t.claimed_at, clock()),
           j.due_at, j.effective_at, j.expires_at, j.created_at, j.destination::text,
           j.policy::text, CASE WHEN with_payload THEN j.payload END, j.content_type,
           j.payload_ref, j.spread_seconds, j.metadata, j.description, j.schedule_id, j.origin_id,
           0, (t.claimed_at IS NOT NULL)::integer, nullif(t.due_at, 'infinity'), t.claimed_at,
           NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::text, NULL::text,
           NULL::smallint, t.claimed_by, false, NULL::bytea, j.unique_by::text, j.key, l.priority
      FROM unnest(buckets, ids) AS wanted (bucket, job_id)
      JOIN timer t ON t.bucket = wanted.bucket AND t.subject = wanted.job_id
           AND t.attempt = 0 AND t.revision = 0
      JOIN job j ON j.bucket = t.bucket AND j.tenant_id = of_tenant
           AND j.job_id = t.subject AND j.job_id BETWEEN first_id AND last_id
      JOIN lane l ON l.lane_id = j.lane_id
     WHERE t.bucket = ANY (buckets);
    GET DIAGNOSTICS found = ROW_COUNT;
    IF found = cardinality(ids) THEN
        RETURN;
    END IF;
    -- A job has either a timer or an outcome. The last revision is the one that counts.
    RETURN QUERY
    SELECT j.job_id, l.lane_id, l.name,
           job_status(t.due_at, t.claimed_at, clock(), o.status),
           coalesce(r.due_at, j.due_at), coalesce(r.effective_at, j.effective_at),
           CASE WHEN r.revision IS NULL THEN j.expires_at ELSE r.expires_at END,
           j.created_at, j.destination::text,
           CASE WHEN r.revision IS NULL THEN j.policy ELSE r.policy END::text,
           CASE WHEN NOT with_payload THEN NULL
                WHEN coalesce(r.payload_revision, 0) = 0 THEN j.payload ELSE p.payload END,
           CASE WHEN coalesce(r.payload_revision, 0) = 0 THEN j.content_type
                ELSE p.content_type END,
           CASE WHEN coalesce(r.payload_revision, 0) = 0 THEN j.payload_ref
                ELSE p.payload_ref END,
           j.spread_seconds, j.metadata, j.description, j.schedule_id, j.origin_id,
           coalesce(r.revision, 0),
           coalesce(t.attempt + (t.claimed_at IS NOT NULL)::integer, o.attempt, 0),
           nullif(t.due_at, 'infinity'), t.claimed_at, o.due_at, o.started_at, o.finished_at,
           coalesce(o.code, a.code), coalesce(o.error, a.error),
           coalesce(o.http_status, a.http_status), coalesce(t.claimed_by, o.node_id, a.node_id),
           o.doubt IS NOT NULL,
           CASE WHEN with_payload AND o.status = 'COMPLETED' THEN o.response END,
           j.unique_by::text, j.key, l.priority
      FROM unnest(buckets, ids) AS wanted (bucket, job_id)
      JOIN job j ON j.bucket = wanted.bucket AND j.tenant_id = of_tenant
           AND j.job_id = wanted.job_id AND j.job_id BETWEEN first_id AND last_id
      LEFT JOIN timer t ON t.bucket = j.bucket AND t.subject = j.job_id
      LEFT JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
           AND o.subject BETWEEN first_id AND last_id
      LEFT JOIN LATERAL (
           SELECT x.code, x.error, x.http_status, x.node_id FROM attempt x
            WHERE x.bucket = j.bucket AND x.subject = j.job_id
              AND x.subject BETWEEN first_id AND last_id AND t.attempt > 0
            ORDER BY x.attempt DESC LIMIT 1) AS a ON true
      LEFT JOIN LATERAL (
           SELECT v.* FROM job_revision v
            WHERE v.bucket = j.bucket AND v.job_id = j.job_id
              AND v.job_id BETWEEN first_id AND last_id
            ORDER BY v.revision DESC LIMIT 1) AS r ON true
      JOIN lane l ON l.lane_id = coalesce(r.lane_id, j.lane_id)
      LEFT JOIN job_revision p ON p.bucket = j.bucket AND p.job_id = j.job_id
           AND p.job_id BETWEEN first_id AND last_id AND p.revision = r.payload_revision
     WHERE (t.subject IS NULL OR t.attempt > 0 OR t.revision > 0) AND j.bucket = ANY (buckets);
END $$;

REVOKE EXECUTE ON FUNCTION job_read FROM PUBLIC;
GRANT EXECUTE ON FUNCTION job_read TO postdate_writer, postdate_reader;

-- Whether a search for a text finds this job: part of its description, a key of its
-- metadata or `key=value`, or the end of its id, of which lists show twelve characters.
CREATE OR REPLACE FUNCTION text_finds(wanted text, id uuid, description text, metadata jsonb)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(strpos(lower(description), lower(wanted)) > 0, false)
        OR coalesce(metadata ? wanted, false)
        OR coalesce(metadata ->> split_part(wanted, '=', 1)
                    = substr(wanted, nullif(strpos(wanted, '='), 0) + 1), false)
        OR (length(wanted) >= 6 AND right(id::text, length(wanted)) = lower(wanted))$$;

-- Whether a list means this job, by a text, the name of its destination and its key, where given.
CREATE OR REPLACE FUNCTION job_finds(
    wanted text, named text, of_key text, id uuid, description text, metadata jsonb,
    destination jsonb, key text)
    RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (wanted IS NULL OR text_finds(wanted, id, description, metadata))
       AND (named IS NULL OR coalesce(destination ->> 'name' = named, false))
       AND (of_key IS NULL OR coalesce(key = of_key, false))$$;

-- The row of its lane in which a job waits, or last waited: a change of priority moves it.
CREATE OR REPLACE FUNCTION job_lane(of_bucket smallint, id uuid, at_first integer)
    RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT r.lane_id FROM job_revision r
                      WHERE r.bucket = of_bucket AND r.job_id = id
                      ORDER BY r.revision DESC LIMIT 1), at_first)
$$;

-- A row where an ended job is meant by a list, by its lane, its last instant, its code, a text, its
-- destination and its key.
-- Looked up by itself for each row of a walk: joined, all rows would be before a limit is reached.
CREATE OR REPLACE FUNCTION job_ended_find(
    in_bucket smallint, in_tenant integer, id uuid, lanes integer[], since timestamptz,
    until timestamptz, wanted_code text, wanted text, named text, of_key text)
    RETURNS TABLE (found boolean) LANGUAGE sql STABLE AS $$
    SELECT true FROM job j JOIN outcome o ON o.bucket = j.bucket AND o.subject = j.job_id
     WHERE j.bucket = in_bucket AND j.tenant_id = in_tenant AND j.job_id = id
       AND (lanes IS NULL OR job_lane(j.bucket, j.job_id, j.lane_id) = ANY (lanes))
       AND o.due_at BETWEEN since AND until
       AND (wanted_code IS NULL OR o.code = wanted_code)
       AND (job_finds(wanted, named, of_key, j.job_id, j.description, j.metadata, j.destination,
                      j.key)
            OR (o.code = wanted
                AND job_finds(NULL, named, of_key, j.job_id, NULL, NULL, j.destination, j.key)))
     LIMIT 1
$$;

-- What became of a job so far, if that is asked for; looked up as above.
CREATE OR REPLACE FUNCTION job_status_find(in_bucket smallint, id uuid, asked boolean)
    RETURNS TABLE (status text, code text) LANGUAGE sql STABLE AS $$
    SELECT job_status(t.due_at, t.claimed_at, clock(), o.status), o.code
      FROM (SELECT 1 WHERE asked) AS one
      LEFT JOIN timer t ON t.bucket = in_bucket AND t.subject = id
      LEFT JOIN outcome o ON o.bucket = in_bucket AND o.subject = id
     LIMIT 1
$$;
