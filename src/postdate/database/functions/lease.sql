-- Leases: ended with what became of them, as one call.

-- Delete the timers, write the outcomes and put them into the outbox, in one statement: three would
-- cost half as much again, most of it in carrying the same values to and fro. Columns may come
-- short, as database/connection/column.py says; in the select list they are walked, in FROM each
-- would be laid down first. Returns NULL when every token still held: the rule, and nothing to
-- carry back; else the jobs whose tokens did.
CREATE OR REPLACE FUNCTION lease_end(
    of_bucket smallint, given lease_endings, of_actor text, reported boolean
) RETURNS uuid[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    first_token bigint := given.tokens[1];
    first_status text := given.statuses[1];
    at timestamptz := clock();
    held uuid[];
    doubted uuid[];
BEGIN
    IF 'FAILED' = ANY (given.statuses) THEN
        doubted := job_doubted(of_bucket, given.subjects);
    END IF;
    WITH ending AS (
        SELECT unnest(given.subjects) AS subject, unnest(given.tokens) AS token,
               unnest(given.statuses) AS status, unnest(given.http_statuses) AS http_status,
               unnest(given.codes) AS code, unnest(given.errors) AS error,
               unnest(given.responses) AS response, unnest(given.untried) AS untried,
               unnest(given.unknown) AS unknown),
    done AS (
        DELETE FROM timer t USING ending e
         WHERE t.bucket = of_bucket AND t.subject = e.subject AND t.claimed_at IS NOT NULL
           AND t.token = coalesce(e.token, first_token)
        RETURNING t.bucket, t.tenant_id, t.subject, t.ready_at, t.claimed_by,
                  CASE WHEN e.untried THEN t.attempt ELSE t.attempt + 1 END AS attempt,
                  CASE WHEN e.untried THEN NULL ELSE t.claimed_at END AS started_at,
                  CASE WHEN reported THEN t.token END AS token,
                  coalesce(e.status, first_status) AS status, e.http_status, e.code, e.error,
                  e.response, e.unknown),
    ended AS (
        INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                             finished_at, http_status, code, error, response, node_id, token, actor,
                             doubt)
        SELECT bucket, tenant_id, subject, attempt, status, ready_at, started_at, at,
               http_status, code, error, response, claimed_by, token, of_actor,
               CASE WHEN status <> 'FAILED' THEN NULL WHEN unknown THEN 'LAST'
                    WHEN subject = ANY (doubted) THEN 'EARLIER' END
          FROM done
        RETURNING bucket, tenant_id, subject, outcome_event_id(subject, finished_at) AS event_id,
                  CASE status WHEN 'COMPLETED' THEN 'job.completed' ELSE 'job.failed' END AS type,
                  outcome_digest(ROW(outcome.*)::outcome) AS digest),
    sent AS (
        INSERT INTO outbox (bucket, tenant_id, types, subjects, events, digests)
        SELECT bucket, tenant_id, outbox_types(array_agg(type ORDER BY event_id)),
               array_agg(subject ORDER BY event_id), array_agg(event_id ORDER BY event_id),
               string_agg(digest, '' ORDER BY event_id)
          FROM ended GROUP BY bucket, tenant_id)
    SELECT CASE WHEN count(*) < cardinality(given.subjects)
                THEN coalesce(array_agg(subject), '{}') END
      INTO held FROM ended;
    RETURN held;
END $$;

-- Write down executions that did not end the matter.
CREATE OR REPLACE FUNCTION lease_attempt(of_bucket smallint, tried attempt_columns)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    at timestamptz := clock();
BEGIN
    INSERT INTO attempt (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                         finished_at, retry_at, http_status, code, error, response, node_id)
    SELECT of_bucket, unnest(tried.tenant_id), unnest(tried.subject), unnest(tried.attempt),
           unnest(tried.status), unnest(tried.due_at), unnest(tried.started_at), at,
           unnest(tried.retry_at), unnest(tried.http_status), unnest(tried.code),
           unnest(tried.error), unnest(tried.response), unnest(tried.node_id);
END $$;

REVOKE EXECUTE ON FUNCTION lease_end, lease_attempt FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lease_end, lease_attempt TO postdate_writer;
