-- Keys of requests: forgotten when nobody can ask for them any more.

-- Walk a tenant's keys of jobs (or of redrives) in a bucket from a key on, forget those that are
-- older than an instant and whose job had ended by then or is gone, and say where to go on: NULL at
-- the end. The key of a job that is due in ten years is as old as the job. A job's own bucket is
-- another than that of its key, so its rows are looked up by their own keys.
CREATE OR REPLACE FUNCTION idempotency_prune(
    in_bucket smallint, in_tenant integer, in_scope text, before timestamptz, after text,
    most integer, OUT removed integer, OUT last text)
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

REVOKE EXECUTE ON FUNCTION idempotency_prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION idempotency_prune TO postdate_writer;
