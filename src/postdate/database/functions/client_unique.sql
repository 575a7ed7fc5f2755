-- Unique keys in your own transaction: read when they are asked for, decided at the commit.

-- What is said of a unique key, as it is stored; the rules that are not about one field.
CREATE OR REPLACE FUNCTION client_check_unique(
    given jsonb, run_at timestamptz, delay_seconds float8) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    longest constant float8 := (given ->> 'max_delay_seconds')::float8;
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    END IF;
    given := jsonb_strip_nulls(given);
    IF (given ->> 'on_conflict' IS NOT DISTINCT FROM 'debounce') <> (longest IS NOT NULL) THEN
        PERFORM client_wrong('unique.max_delay_seconds',
            '`max_delay_seconds` belongs to `on_conflict` `debounce`, which needs it.');
    ELSIF coalesce(run_at, clock() + make_interval(secs => coalesce(delay_seconds, 0)))
          > clock() + make_interval(secs => longest) THEN
        PERFORM client_wrong('unique.max_delay_seconds',
            'The job would be due later than `max_delay_seconds` from now.');
    END IF;
    RETURN CASE WHEN given ->> 'on_conflict' = 'keep' THEN given - 'on_conflict' ELSE given END;
END $$;

-- The job that waits under a unique key as this transaction sees it, without a lock: one that it
-- asked for itself, or one that is committed.
CREATE OR REPLACE FUNCTION client_waiting(of_tenant integer, of_key text, but uuid) RETURNS uuid
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(
        (SELECT t.subject FROM job_unique u
           JOIN timer t ON t.bucket = bucket_of(u.job_id) AND t.subject = u.job_id
          WHERE u.bucket = job_unique_bucket(job_unique_hash(of_tenant, of_key))
            AND u.tenant_id = of_tenant AND u.key = job_unique_hash(of_tenant, of_key)
            AND t.claimed_at IS NULL AND t.due_at < 'infinity'),
        (SELECT r.subject FROM client_request r
          WHERE r.transaction = pg_current_xact_id_if_assigned() AND r.kind = 'job'
            AND r.body #>> '{unique_by,key}' = of_key AND r.subject <> but
          ORDER BY r.number LIMIT 1))
     WHERE of_key IS NOT NULL
$$;

-- Revise the job that waits under a unique key as a request asks for; job/accept/unique.py does the
-- same. Returns whether anything changed.
CREATE OR REPLACE FUNCTION client_unique_merge(
    asked client_request, at timestamptz, due timestamptz, waiting timer) RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    rule constant jsonb := asked.body -> 'unique_by';
    replaces constant boolean := rule ->> 'on_conflict' = 'replace';
    j job;
    before job_revision;
    last timestamptz;
    effective timestamptz := greatest(due, at);
BEGIN
    IF coalesce(rule ->> 'on_conflict', 'keep') = 'keep' THEN
        RETURN false;
    END IF;
    SELECT * INTO STRICT j FROM job k WHERE k.bucket = waiting.bucket
       AND k.tenant_id = asked.tenant_id AND k.job_id = waiting.subject;
    SELECT * INTO before FROM job_revision r WHERE r.bucket = waiting.bucket
       AND r.job_id = waiting.subject ORDER BY r.revision DESC LIMIT 1;
    IF replaces AND j.lane_id <> (asked.body ->> 'lane_id')::integer
       AND (SELECT l.name FROM lane l WHERE l.lane_id = j.lane_id) <> asked.body ->> 'lane' THEN
        PERFORM client_unique_refuse('lane', waiting.subject);
    ELSIF replaces AND j.destination <> asked.body -> 'destination' THEN
        PERFORM client_unique_refuse('destination', waiting.subject);
    ELSIF replaces AND j.key IS DISTINCT FROM asked.body ->> 'key' THEN
        PERFORM client_unique_refuse('key', waiting.subject);
    END IF;
    IF NOT replaces THEN
        last := j.created_at + make_interval(secs => (rule ->> 'max_delay_seconds')::float8);
        due := least(due, last);
        effective := greatest(least(effective, last), at);
        IF effective = waiting.due_at OR greatest(waiting.due_at, effective) <= at THEN
            RETURN false;
        END IF;
    END IF;
    INSERT INTO job_revision (bucket, tenant_id, job_id, revision, due_at, effective_at, expires_at,
                              policy, payload_revision, payload, content_type, payload_ref, lane_id)
    VALUES (waiting.bucket, asked.tenant_id, waiting.subject, waiting.revision + 1, due, effective,
            (asked.body ->> 'expires_at')::timestamptz,
            CASE WHEN replaces THEN asked.body -> 'policy' WHEN before.revision IS NULL
                 THEN j.policy ELSE before.policy END,
            CASE WHEN replaces THEN waiting.revision + 1
                 ELSE coalesce(before.payload_revision, 0) END,
            CASE WHEN replaces THEN asked.payload END,
            CASE WHEN replaces THEN asked.body ->> 'content_type' END,
            CASE WHEN replaces THEN asked.body ->> 'payload_ref' END, waiting.lane_id);
    UPDATE timer t SET due_at = effective, revision = waiting.revision + 1, ready_at = NULL
     WHERE t.bucket = waiting.bucket AND t.subject = waiting.subject;
    PERFORM client_event(asked.tenant_id, waiting.subject,
        CASE WHEN replaces THEN 'job.replaced' ELSE 'job.debounced' END, asked.actor,
        jsonb_build_object('due_at', instant_text(due), 'revision', waiting.revision + 1), true);
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION client_unique_refuse(field text, job_id uuid) RETURNS void
    LANGUAGE sql AS $$
    SELECT client_refuse(409, 'conflict',
        format('The job that waits under this unique key has another %s.', field), field,
        'Cancel that job, or use another unique key.', jsonb_build_object('job_id', job_id))
$$;

-- What a request under an idempotency key is answered again, where it was merged into a job that
-- waited: the request and the answer as the API keeps them.
CREATE OR REPLACE FUNCTION client_unique_kept(asked client_request) RETURNS bytea
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    b constant jsonb := asked.body;
    j job;
    t timer;
    says jsonb;
BEGIN
    SELECT * INTO STRICT j FROM job k WHERE k.bucket = bucket_of((b ->> 'merged')::uuid)
       AND k.tenant_id = asked.tenant_id AND k.job_id = (b ->> 'merged')::uuid;
    SELECT * INTO STRICT t FROM timer k WHERE k.bucket = j.bucket AND k.subject = j.job_id;
    IF b ->> 'content_type' = 'application/json' THEN
        says := jsonb_build_object('payload', convert_from(asked.payload, 'UTF8')::jsonb);
    ELSE
        says := jsonb_strip_nulls(jsonb_build_object('payload_base64',
            replace(encode(asked.payload, 'base64'), E'\n', ''),
            'content_type', b -> 'content_type'));
    END IF;
    RETURN convert_to(jsonb_build_object(
        'request', says || jsonb_strip_nulls(jsonb_build_object(
            'destination', b -> 'destination', 'lane', b -> 'lane', 'run_at', b -> 'run_at',
            'delay_seconds', b -> 'delay_seconds', 'retry', b #> '{policy,retry}',
            'timeout_seconds', b #> '{policy,timeout_seconds}', 'expires_at', b -> 'expires_at',
            'payload_ref', b -> 'payload_ref', 'description', b -> 'description',
            'unique', b -> 'unique_by', 'key', b -> 'key', 'priority', b -> 'priority'))
            || CASE WHEN b ? 'metadata' THEN jsonb_build_object('metadata', b -> 'metadata')
                    ELSE '{}' END,
        'answer', jsonb_build_object(
            'job_id', j.job_id, 'status', job_status(t.due_at, t.claimed_at, clock()),
            'lane', b -> 'lane', 'priority', (SELECT l.priority FROM lane l
                                               WHERE l.lane_id = t.lane_id),
            'destination', j.destination, 'due_at', instant_text(j.due_at),
            'effective_at', instant_text(t.due_at), 'created_at', instant_text(j.created_at),
            'revision', t.revision, 'next_attempt_at', instant_text(t.due_at),
            'unique', j.unique_by, 'deduplicated', true)
            || jsonb_strip_nulls(jsonb_build_object('key', j.key)))::text, 'UTF8');
END $$;

-- Accept the jobs with unique keys that this transaction asked for; returns how many were made. All
-- keys are locked first, in the one order, then each request is decided in turn: it is merged into
-- the job that waits, or becomes the job that holds the key.
CREATE OR REPLACE FUNCTION client_accept_unique(
    mine xid8, of_tenant integer, at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_variable
DECLARE
    past float8 := client_setting(of_tenant, 'job.past_tolerance_seconds')::float8;
    ahead float8 := client_setting(of_tenant, 'job.horizon_seconds')::float8;
    asked client_request;
    hash uuid;
    place smallint;
    named uuid;
    waiting timer;
    made bigint := 0;
BEGIN
    FOR place, hash IN
        SELECT DISTINCT job_unique_bucket(k.hash), k.hash
          FROM (SELECT job_unique_hash(of_tenant, r.body #>> '{unique_by,key}') AS hash
                  FROM client_request r WHERE r.transaction = mine AND r.kind = 'job'
                   AND r.body ? 'unique_by' OFFSET 0) AS k
         ORDER BY 1, 2
    LOOP
        INSERT INTO job_unique AS u (bucket, tenant_id, key) VALUES (place, of_tenant, hash)
        ON CONFLICT (bucket, tenant_id, key) DO UPDATE SET job_id = u.job_id;
    END LOOP;
    FOR asked IN
        SELECT r.* FROM client_request r WHERE r.transaction = mine AND r.kind = 'job'
           AND r.body ? 'unique_by' ORDER BY r.number
    LOOP
        hash := job_unique_hash(of_tenant, asked.body #>> '{unique_by,key}');
        place := job_unique_bucket(hash);
        SELECT u.job_id INTO named FROM job_unique u
         WHERE u.bucket = place AND u.tenant_id = of_tenant AND u.key = hash;
        SELECT t.* INTO waiting FROM timer t
         WHERE t.bucket = bucket_of(named) AND t.subject = named AND t.tenant_id = of_tenant
           FOR UPDATE;
        IF waiting.claimed_at IS NULL AND waiting.due_at < 'infinity' THEN
            PERFORM client_unique_merge(asked, at,
                client_job_due(asked.body, at, past, ahead), waiting);
            UPDATE client_request r SET body = r.body || jsonb_build_object('merged', named)
             WHERE r.transaction = mine AND r.subject = asked.subject AND r.number = asked.number;
        ELSIF waiting.subject IS NULL
              AND EXISTS (SELECT FROM job j WHERE j.bucket = bucket_of(named)
                             AND j.tenant_id = of_tenant AND j.job_id = named)
              AND NOT EXISTS (SELECT FROM outcome o
                               WHERE o.bucket = bucket_of(named) AND o.subject = named) THEN
            PERFORM client_refuse(409, 'conflict',
                format('The job %s has lost its timer. Cancel it, or have the operator put it back '
                       'with `postdate reconcile --repair`.', named));
        ELSE
            PERFORM job_insert(client_job_columns(mine, of_tenant, at, ARRAY[asked.number]), at);
            UPDATE job_unique u SET job_id = asked.subject
             WHERE u.bucket = place AND u.tenant_id = of_tenant AND u.key = hash;
            made := made + 1;
        END IF;
    END LOOP;
    RETURN made;
END $$;

REVOKE EXECUTE ON FUNCTION client_check_unique, client_waiting, client_unique_merge,
    client_unique_refuse, client_unique_kept, client_accept_unique FROM PUBLIC;
