-- Jobs in your own transaction: enqueue checks and promises an id, the commit writes the job.

-- Where a job goes, as it is stored: the rules that are not about one field. A bare URL must have a
-- host name and the usual port: which addresses may be called, the nodes know; they judge a named
-- destination when it is made, and every address before the first byte is sent.
CREATE OR REPLACE FUNCTION client_check_destination(of_tenant integer, given jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    to_type constant text := given ->> 'type';
    real_type text;
    field text;
BEGIN
    given := jsonb_strip_nulls(given);
    IF to_type = 'webhook' AND (given ? 'url') = (given ? 'name') THEN
        PERFORM client_wrong('destination', 'A webhook has either a `url` or a `name`.');
    END IF;
    FOREACH field IN ARRAY ARRAY['url', 'cancel_url'] LOOP
        IF (given ->> field) !~* ('^https?://([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+'
                                  '[a-z_-][a-z0-9_-]*([/?][!-"$-~]*)?$')
           OR (given ->> field) ~* '^https?://[^/?]*\.localhost([/?]|$)' THEN
            PERFORM client_refuse(422, 'target_not_allowed',
                'A URL is https://host.name/path, without a port, an address or a user.',
                'destination.' || field, CASE field
                    WHEN 'url' THEN 'Make a named destination for any other: POST /destinations.'
                    ELSE 'Ask for any other over HTTP: POST /jobs.' END);
        END IF;
    END LOOP;
    IF NOT given ? 'url' AND to_type <> 'worker' THEN
        SELECT d.type INTO real_type FROM destination d
         WHERE d.tenant_id = of_tenant AND d.name = given ->> 'name';
        IF real_type IS NULL THEN
            PERFORM client_refuse(422, 'unknown_destination',
                format('There is no destination %s.', given ->> 'name'), 'destination.name',
                'Create it with POST /destinations first.');
        ELSIF real_type <> to_type THEN
            PERFORM client_wrong('destination.type',
                format('%s is a %s, no %s.', given ->> 'name', real_type, to_type));
        END IF;
    END IF;
    RETURN given;
END $$;

-- How many lanes a tenant has, including the lanes that this transaction will make.
CREATE OR REPLACE FUNCTION client_lanes(of_tenant integer) RETURNS bigint
    LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT count(*) FROM (
        SELECT l.name FROM lane l WHERE l.tenant_id = of_tenant
         UNION
        SELECT r.body ->> 'lane' FROM client_request r
         WHERE r.transaction = pg_current_xact_id() AND r.kind = 'job') AS names
$$;

-- Where a job waits: its lane, and one of the lane's buckets (lane/spec.py chooses the same). A
-- lane that does not exist is made at the commit, under the number that is drawn here.
CREATE OR REPLACE FUNCTION client_lane(
    of_tenant integer, of_name text, of_kind text, of_priority integer, of_key text,
    OUT lane_id integer, OUT bucket smallint)
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    wide smallint;
    most bigint;
BEGIN
    SELECT l.lane_id, l.width INTO lane_id, wide FROM lane l
     WHERE l.tenant_id = of_tenant AND l.name = of_name AND l.kind = of_kind
       AND l.priority = of_priority AND l.keyed = (of_key IS NOT NULL);
    IF lane_id IS NULL THEN
        SELECT (r.body ->> 'lane_id')::integer INTO lane_id FROM client_request r
         WHERE r.transaction = pg_current_xact_id() AND r.kind = 'job'
           AND r.body ->> 'lane' = of_name AND r.body ->> 'lane_kind' = of_kind
           AND (r.body ->> 'priority')::integer = of_priority
           AND (r.body ? 'key') = (of_key IS NOT NULL) LIMIT 1;
        SELECT l.width INTO wide FROM lane l
         WHERE l.tenant_id = of_tenant AND l.name = of_name LIMIT 1;
        most := client_setting(of_tenant, 'job.max_lanes')::bigint;
        IF wide IS NULL AND lane_id IS NULL AND most <= client_lanes(of_tenant) THEN
            PERFORM client_refuse(422, 'too_many_lanes',
                format('The limit is %s lanes.', most), 'lane');
        END IF;
        lane_id := coalesce(lane_id, nextval(pg_get_serial_sequence('lane', 'lane_id'))::integer);
    END IF;
    -- A key has one place among 16 buckets (KEY_WIDTH).
    SELECT own.bucket INTO bucket
      FROM (SELECT b::smallint AS bucket FROM generate_series(0, 63) AS b
             ORDER BY sha256(convert_to(of_tenant || '/' || of_name || '/' || b, 'UTF8'))
             LIMIT CASE WHEN of_key IS NULL THEN coalesce(wide, 8) ELSE 16 END) AS own
     ORDER BY CASE WHEN of_key IS NULL THEN random() END, own.bucket LIMIT 1
    OFFSET coalesce(get_byte(sha256(convert_to(of_key, 'UTF8')), 31) % 16, 0);
END $$;

-- When a job is due, counted from an instant; refused where that is no time for a job: more than
-- `past` seconds before the instant, or `ahead` seconds after it.
CREATE OR REPLACE FUNCTION client_job_due(body jsonb, at timestamptz, past float8, ahead float8)
    RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    run_at timestamptz := (body ->> 'run_at')::timestamptz;
    delay float8 := coalesce((body ->> 'delay_seconds')::float8, 0);
    expires timestamptz := (body ->> 'expires_at')::timestamptz;
    due timestamptz;
    late text := format('A job may be due at most %s s from now.', ahead);
BEGIN
    IF delay > ahead THEN
        PERFORM client_refuse(422, 'beyond_horizon', late, 'delay_seconds');
    ELSIF run_at < at - make_interval(secs => past) THEN
        PERFORM client_refuse(422, 'due_in_past',
            format('`run_at` may be at most %s s in the past.', past), 'run_at');
    ELSIF run_at > at + make_interval(secs => ahead) THEN
        PERFORM client_refuse(422, 'beyond_horizon', late, 'run_at');
    END IF;
    due := coalesce(run_at, at + make_interval(secs => delay));
    IF expires <= greatest(due, at) THEN
        PERFORM client_wrong('expires_at', 'The job would expire before it is due.');
    ELSIF expires > at + make_interval(secs => ahead) THEN
        PERFORM client_refuse(422, 'beyond_horizon', format(
            'A job may expire at %s at the latest.', to_char(
                (at + make_interval(secs => ahead)) AT TIME ZONE 'UTC', 'YYYY-MM-DD')),
            'expires_at');
    END IF;
    RETURN due;
END $$;

-- What a job asks for, in the form in which requests under one key are compared.
CREATE OR REPLACE FUNCTION client_job_asked(
    destination jsonb, lane text, policy jsonb, expires_at timestamptz, payload bytea,
    content_type text, payload_ref text, metadata jsonb, description text, spread integer,
    due_at timestamptz, unique_by jsonb, key text, priority integer)
    RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
    says jsonb := to_jsonb(encode(payload, 'base64'));
BEGIN
    IF content_type = 'application/json' THEN
        BEGIN
            says := jsonb_build_array(convert_from(payload, 'UTF8')::jsonb);
        EXCEPTION WHEN data_exception THEN
            NULL;  -- an encrypted payload is compared as it is
        END;
    END IF;
    RETURN jsonb_build_object('destination', destination, 'lane', lane, 'retry', policy -> 'retry',
        'timeout_seconds', policy -> 'timeout_seconds', 'expires_at', instant_text(expires_at),
        'payload', says, 'content_type', content_type, 'payload_ref', payload_ref,
        'metadata', metadata, 'description', description, 'spread_seconds', spread,
        'run_at', instant_text(due_at), 'unique_by', unique_by, 'key', key, 'priority', priority);
END $$;

-- The job that a key led to before, if this asks for the same; NULL where the key is new.
CREATE OR REPLACE FUNCTION client_job_known(asked client_request) RETURNS uuid
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    staged client_request;
    known idempotency;
    j job;
    b jsonb := asked.body;
    differs text[];
BEGIN
    SELECT r.* INTO staged FROM client_request r
     WHERE r.transaction = pg_current_xact_id() AND r.kind = 'job' AND r.key = asked.key;
    IF staged.subject IS NOT NULL THEN
        IF staged.fingerprint <> asked.fingerprint THEN
            differs := client_differs(staged.body - 'lane_id', asked.body - 'lane_id');
            IF staged.payload IS DISTINCT FROM asked.payload THEN
                differs := differs || ARRAY['payload'];
            END IF;
            PERFORM client_refuse_reused(differs);
        END IF;
        RETURN coalesce(client_waiting(asked.tenant_id, staged.body #>> '{unique_by,key}',
                                       staged.subject), staged.subject);
    END IF;
    SELECT i.* INTO known FROM idempotency i
     WHERE i.bucket = (get_byte(uuid_send(asked.key), 0) & 63)::smallint AND i.scope = 1
       AND i.tenant_id = asked.tenant_id AND i.key = asked.key;
    -- Without a subject the request was merged into the job that its answer names.
    IF known.key IS NULL OR known.fingerprint = asked.fingerprint THEN
        RETURN coalesce(known.subject,
                        (convert_from(known.kept, 'UTF8')::jsonb #>> '{answer,job_id}')::uuid);
    END IF;
    SELECT f.* INTO j FROM job f WHERE f.bucket = bucket_of(known.subject)
       AND f.tenant_id = asked.tenant_id AND f.job_id = known.subject;
    IF j.job_id IS NOT NULL THEN
        differs := client_differs(
            client_job_asked(j.destination, (SELECT l.name FROM lane l WHERE l.lane_id = j.lane_id),
                j.policy, j.expires_at, j.payload, j.content_type, j.payload_ref, j.metadata,
                j.description, j.spread_seconds, j.due_at, j.unique_by, j.key,
                (SELECT l.priority FROM lane l WHERE l.lane_id = j.lane_id)),
            client_job_asked(b -> 'destination', b ->> 'lane', b -> 'policy',
                (b ->> 'expires_at')::timestamptz, asked.payload, b ->> 'content_type',
                b ->> 'payload_ref', b -> 'metadata', b ->> 'description', NULL,
                coalesce((b ->> 'run_at')::timestamptz, known.created_at + make_interval(
                    secs => coalesce((b ->> 'delay_seconds')::float8, 0))), b -> 'unique_by',
                b ->> 'key', (b ->> 'priority')::integer));
        IF differs = '{}' THEN
            RETURN known.subject;
        END IF;
    END IF;
    PERFORM client_refuse_reused(coalesce(differs, '{}'));
END $$;

-- Schedule a job: it is there when this transaction commits, and was never there if it does not.
-- Takes what POST /jobs takes, but for spread_seconds; bytes instead of payload_base64, and
-- unique_by for `unique`, which is a word of SQL. Under a unique key it returns the job that waits
-- now, if there is one: whether it still does is decided at the commit (client_accept_unique).
CREATE OR REPLACE FUNCTION enqueue(
    destination jsonb, payload jsonb DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    delay_seconds float8 DEFAULT NULL, lane text DEFAULT 'default',
    idempotency_key text DEFAULT NULL, retry jsonb DEFAULT NULL,
    timeout_seconds float8 DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
    metadata jsonb DEFAULT NULL, description text DEFAULT NULL, payload_ref text DEFAULT NULL,
    payload_bytes bytea DEFAULT NULL, content_type text DEFAULT NULL,
    traceparent text DEFAULT NULL, unique_by jsonb DEFAULT NULL, key text DEFAULT NULL,
    priority integer DEFAULT 5)
    RETURNS uuid LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER SET search_path FROM CURRENT SET client_encoding = 'UTF8'
    SET standard_conforming_strings = on SET extra_float_digits = 1 SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    me client_role := client_identity('jobs:write');
    asked client_request;
    found uuid;
    place record;
    kind text;
    schema jsonb := (SELECT s.schema FROM client_schema s WHERE s.noun = 'job');
BEGIN
    PERFORM client_refuse_halted(me.tenant_id, true);
    -- Without what may be left out, which is most of it.
    PERFORM client_check(schema, jsonb_strip_nulls(jsonb_build_object(
        'run_at', client_instant(run_at), 'delay_seconds', delay_seconds, 'retry', retry,
        'timeout_seconds', timeout_seconds, 'expires_at', client_instant(expires_at),
        'metadata', metadata, 'description', description, 'payload_ref', payload_ref,
        'content_type', content_type, 'unique', unique_by))
        || jsonb_build_object('destination', destination, 'lane', lane, 'priority', priority)
        || CASE WHEN key IS NULL THEN '{}' ELSE jsonb_build_object('key', key) END);
    destination := client_check_destination(me.tenant_id, destination);
    IF run_at IS NOT NULL AND delay_seconds IS NOT NULL THEN
        PERFORM client_wrong('delay_seconds', 'Give either `run_at` or `delay_seconds`.');
    ELSIF num_nonnulls(payload, payload_bytes, payload_ref) > 1 THEN
        PERFORM client_wrong('payload',
                             'Give one of `payload`, `payload_bytes` and `payload_ref`.');
    ELSIF content_type IS NOT NULL AND num_nonnulls(payload, payload_bytes) = 0 THEN
        PERFORM client_wrong('content_type', 'A `content_type` needs a payload.');
    ELSIF traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM client_wrong('traceparent', 'traceparent is as the W3C writes it.');
    END IF;
    PERFORM client_check_depth('metadata', metadata);
    unique_by := client_check_unique(unique_by, run_at, delay_seconds);
    asked.payload := coalesce(convert_to(payload::text, 'UTF8'), payload_bytes);
    IF octet_length(asked.payload) > (schema #> '{properties,payload,maxBytes}')::integer THEN
        PERFORM client_refuse(413, 'payload_too_large',
                              schema #>> '{properties,payload,errorMessage}', 'payload',
                              'Store it elsewhere and give a payload_ref.');
    ELSIF substring(asked.payload FOR 11) = '\x0070642d7365616c656401'::bytea THEN
        PERFORM client_wrong('payload_bytes',
            'A payload must not begin with the prefix of encrypted payloads.');
    ELSIF asked.payload IS NOT NULL AND client_setting(me.tenant_id, 'job.encryption') = '"on"' THEN
        PERFORM client_refuse(422, 'invalid_field',
            'Payloads of this tenant are encrypted, with a key that the database does not have.',
            'payload', 'Give a payload_ref, or send the job over HTTP.');
    END IF;
    PERFORM client_check_depth('payload', payload);
    content_type := coalesce(content_type, CASE WHEN payload IS NOT NULL THEN 'application/json'
                             WHEN payload_bytes IS NOT NULL THEN 'application/octet-stream' END);
    IF payload_bytes IS NOT NULL AND content_type = 'application/json' THEN
        BEGIN
            PERFORM convert_from(payload_bytes, 'UTF8')::jsonb;
        EXCEPTION WHEN data_exception THEN
            PERFORM client_wrong('payload_bytes',
                'The payload is not what `content_type` says: application/json.');
        END;
    END IF;
    kind := CASE WHEN destination ->> 'type' = 'worker' THEN 'pull' ELSE 'push' END;
    asked.body := jsonb_strip_nulls(jsonb_build_object('destination', destination, 'lane', lane,
        'lane_kind', kind, 'policy', CASE WHEN num_nonnulls(retry, timeout_seconds) > 0 THEN
            jsonb_build_object('retry', retry, 'timeout_seconds', timeout_seconds) END,
        'run_at', instant_text(run_at), 'delay_seconds', delay_seconds,
        'expires_at', instant_text(expires_at), 'content_type', content_type,
        'payload_ref', payload_ref, 'description', description, 'unique_by', unique_by,
        'key', key, 'priority', priority))
        || CASE WHEN metadata IS NULL THEN '{}' ELSE jsonb_build_object('metadata', metadata) END;
    asked.tenant_id := me.tenant_id;
    IF idempotency_key IS NOT NULL THEN
        PERFORM client_check_key(idempotency_key);
        asked.key := client_key(1, me.tenant_id, idempotency_key);
        asked.fingerprint := encode(substring(sha256(convert_to(asked.body::text, 'UTF8')
            || coalesce(asked.payload, '')) FOR 16), 'hex')::uuid;
        found := client_job_known(asked);
        IF found IS NOT NULL THEN
            RETURN found;
        END IF;
    END IF;
    PERFORM client_job_due(asked.body, clock(),
                           client_setting(me.tenant_id, 'job.past_tolerance_seconds')::float8,
                           client_setting(me.tenant_id, 'job.horizon_seconds')::float8);
    SELECT * INTO place FROM client_lane(me.tenant_id, lane, kind, priority, key);
    asked.subject := client_new_id(place.bucket, CASE WHEN asked.key IS NOT NULL THEN
        substring(sha256(uuid_send(asked.key) || uuid_send(asked.fingerprint)) FOR 8) END, clock());
    asked.body := asked.body || jsonb_strip_nulls(jsonb_build_object('lane_id', place.lane_id,
                                                                     'traceparent', traceparent));
    INSERT INTO client_request (tenant_id, kind, subject, actor, key, fingerprint, body, payload)
    VALUES (me.tenant_id, 'job', asked.subject, 'role:' || me.role_name, asked.key,
            asked.fingerprint, asked.body, asked.payload);
    RETURN coalesce(client_waiting(me.tenant_id, unique_by ->> 'key', asked.subject),
                    asked.subject);
END $$;

-- The columns of the jobs that a transaction asked for, those with a unique key or those without.
CREATE OR REPLACE FUNCTION client_job_columns(
    mine xid8, of_tenant integer, at timestamptz, numbers bigint[]) RETURNS job_columns
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    past float8 := client_setting(of_tenant, 'job.past_tolerance_seconds')::float8;
    ahead float8 := client_setting(of_tenant, 'job.horizon_seconds')::float8;
    jobs job_columns;
BEGIN
    SELECT array_agg(subject), array_agg(of_tenant), array_agg((body ->> 'lane_id')::integer),
           array_agg(due), array_agg(greatest(due, at)),
           array_agg((body ->> 'expires_at')::timestamptz), array_agg(body ->> 'destination'),
           array_agg(body ->> 'policy'), array_agg(payload), array_agg(body ->> 'content_type'),
           array_agg(body ->> 'payload_ref'), array_agg(body ->> 'metadata'),
           array_agg(body ->> 'description'), array_agg(body ->> 'traceparent'),
           array_agg(actor), array_agg(key), array_agg(body ->> 'unique_by'),
           array_agg(body ->> 'key'),
           array_agg(lane_key_id(of_tenant, body ->> 'lane', body ->> 'key'))
      INTO jobs.job_id, jobs.tenant_id, jobs.lane_id, jobs.due_at, jobs.effective_at,
           jobs.expires_at, jobs.destination, jobs.policy, jobs.payload, jobs.content_type,
           jobs.payload_ref, jobs.metadata, jobs.description, jobs.traceparent, jobs.actor,
           jobs.idempotency_key, jobs.unique_by, jobs.key, jobs.key_id
      FROM (SELECT r.*, client_job_due(r.body, at, past, ahead) AS due FROM client_request r
             WHERE r.transaction = mine AND r.kind = 'job' AND r.number = ANY (numbers)
             ORDER BY r.number) AS asked;
    RETURN jobs;
END $$;

CREATE OR REPLACE FUNCTION client_accept_jobs(mine xid8, of_tenant integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock();
    many bigint;
    plain bigint[];
BEGIN
    IF NOT EXISTS (SELECT FROM client_request r WHERE r.transaction = mine AND r.kind = 'job') THEN
        RETURN;
    END IF;
    INSERT INTO lane (lane_id, tenant_id, name, kind, priority, keyed, weight, width, max_running,
                      rate_per_second, per_key, paused_at, paused_note, paused_by)
    OVERRIDING SYSTEM VALUE
    SELECT DISTINCT (r.body ->> 'lane_id')::integer, of_tenant, r.body ->> 'lane',
           r.body ->> 'lane_kind', (r.body ->> 'priority')::smallint, r.body ? 'key',
           coalesce(twin.weight, 1), coalesce(twin.width, 8), twin.max_running,
           twin.rate_per_second, twin.per_key, twin.paused_at, twin.paused_note, twin.paused_by
      FROM client_request r
      LEFT JOIN LATERAL (
           SELECT l.* FROM lane l WHERE l.tenant_id = of_tenant AND l.name = r.body ->> 'lane'
            LIMIT 1) AS twin ON true
     WHERE r.transaction = mine AND r.kind = 'job'
       AND NOT EXISTS (SELECT FROM lane l WHERE l.lane_id = (r.body ->> 'lane_id')::integer);
    plain := ARRAY(SELECT r.number FROM client_request r WHERE r.transaction = mine
                    AND r.kind = 'job' AND NOT r.body ? 'unique_by' ORDER BY r.number);
    IF plain <> '{}' THEN
        PERFORM job_insert(client_job_columns(mine, of_tenant, at, plain), at);
    END IF;
    many := cardinality(plain) + client_accept_unique(mine, of_tenant, at);
    PERFORM client_count(of_tenant, 'jobs', many);
END $$;

REVOKE EXECUTE ON FUNCTION client_check_destination, client_lanes, client_lane, client_job_due,
    client_job_asked, client_job_known, enqueue, client_job_columns, client_accept_jobs
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enqueue TO postdate_client;
