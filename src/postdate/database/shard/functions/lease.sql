-- Leases, ended table by table: what a statement hands on to the next part of it, Citus sends to
-- every node. The timers go by a statement that is planned once for all calls.

CREATE OR REPLACE FUNCTION lease_end(
    of_bucket smallint, given lease_endings, of_actor text, reported boolean
) RETURNS uuid[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    first_token bigint := given.tokens[1];
    first_status text := given.statuses[1];
    at timestamptz := clock();
    gone record;
    told record;
    subjects uuid[] := '{}';
    tenants integer[] := '{}';
    readies timestamptz[] := '{}';
    claims timestamptz[] := '{}';
    claimers uuid[] := '{}';
    attempts smallint[] := '{}';
    held_tokens bigint[] := '{}';
    ended outcome[];
    doubted uuid[];
BEGIN
    IF 'FAILED' = ANY (given.statuses) THEN
        doubted := job_doubted(of_bucket, given.subjects);
    END IF;
    FOR gone IN
        DELETE FROM timer t
         WHERE t.bucket = of_bucket AND t.subject = ANY (given.subjects)
           AND t.claimed_at IS NOT NULL
           AND t.token = coalesce(given.tokens[array_position(given.subjects, t.subject)],
                                  first_token)
        RETURNING t.subject, t.tenant_id, t.ready_at, t.claimed_at, t.claimed_by, t.attempt,
                  t.token LOOP
        subjects := subjects || gone.subject;
        tenants := tenants || gone.tenant_id;
        readies := readies || gone.ready_at;
        claims := claims || gone.claimed_at;
        claimers := claimers || gone.claimed_by;
        attempts := attempts || gone.attempt;
        held_tokens := held_tokens || gone.token;
    END LOOP;
    ended := ARRAY(
        SELECT ROW(of_bucket, CASE WHEN e.untried THEN t.attempt ELSE t.attempt + 1 END,
                   t.tenant_id, t.subject, coalesce(e.status, first_status), t.ready_at,
                   CASE WHEN e.untried THEN NULL ELSE t.claimed_at END, at, NULL, e.http_status,
                   NULL, e.code, e.error, e.response, t.claimed_by,
                   CASE WHEN reported THEN t.token END, of_actor, NULL, NULL,
                   CASE WHEN coalesce(e.status, first_status) <> 'FAILED' THEN NULL
                        WHEN e.unknown THEN 'LAST'
                        WHEN t.subject = ANY (doubted) THEN 'EARLIER' END)::outcome
          FROM (SELECT unnest(given.subjects) AS subject, unnest(given.statuses) AS status,
                       unnest(given.http_statuses) AS http_status, unnest(given.codes) AS code,
                       unnest(given.errors) AS error, unnest(given.responses) AS response,
                       unnest(given.untried) AS untried, unnest(given.unknown) AS unknown) AS e
          JOIN unnest(subjects, tenants, readies, claims, claimers, attempts, held_tokens)
               AS t (subject, tenant_id, ready_at, claimed_at, claimed_by, attempt, token)
            ON t.subject = e.subject);
    INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                         finished_at, http_status, code, error, response, node_id, token, actor,
                         doubt)
    SELECT bucket, tenant_id, subject, attempt, status, due_at, started_at, finished_at,
           http_status, code, error, response, node_id, token, actor, doubt
      FROM unnest(ended);
    FOR told IN
        SELECT tenant_id, outbox_types(array_agg(type ORDER BY event_id)) AS types,
               array_agg(subject ORDER BY event_id) AS subjects,
               array_agg(event_id ORDER BY event_id) AS events,
               string_agg(digest, '' ORDER BY event_id) AS digests
          FROM (SELECT tenant_id, subject, outcome_event_id(subject, finished_at) AS event_id,
                       CASE status WHEN 'COMPLETED' THEN 'job.completed'
                                   ELSE 'job.failed' END AS type,
                       outcome_digest(ROW(o.*)::outcome) AS digest
                  FROM unnest(ended) AS o OFFSET 0) AS each
         GROUP BY tenant_id LOOP
        INSERT INTO outbox (bucket, tenant_id, types, subjects, events, digests)
        VALUES (of_bucket, told.tenant_id, told.types, told.subjects, told.events, told.digests);
    END LOOP;
    IF cardinality(subjects) < cardinality(given.subjects) THEN
        RETURN subjects;
    END IF;
    RETURN NULL;
END $$;
