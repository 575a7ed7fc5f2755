-- Facts: what was told and sealed, where it is stored, how it is shown, and what its digest covers.
--
-- An event is an address: tenant, type, subject and event id. Most lead to the fact itself (a job,
-- a payment, an outcome with its entries), the others to a row of `event`. A digest covers every
-- column of its fact. It is taken of the binary form of the values, which is the same whatever the
-- settings of a session are (our connections all speak UTF-8), and it names the columns: one that
-- a later migration adds is no part of the digests that were sealed before. STABLE lets the
-- planner inline these functions. Callers name the type of the row: on a shard, a row of the table
-- has the type of the shard.

-- job.accepted: the job as it was asked for.
CREATE OR REPLACE FUNCTION job_record(j job) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT record_send(ROW(
        j.bucket, j.tenant_id, j.job_id, j.lane_id, j.due_at, j.effective_at, j.expires_at,
        j.created_at, j.destination, j.policy, j.payload, j.content_type, j.payload_ref,
        j.spread_seconds, j.metadata, j.description, j.schedule_id, j.origin_id, j.traceparent,
        j.actor, j.idempotency_key, j.unique_by, j.key))
$$;
CREATE OR REPLACE FUNCTION job_digest(j job) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(job_record(j))
$$;

-- payment.scheduled: the payment as it was asked for.
CREATE OR REPLACE FUNCTION payment_record(p payment) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT record_send(ROW(
        p.bucket, p.to_bucket, p.tenant_id, p.payment_id, p.from_account, p.to_account, p.amount,
        p.due_at, p.hold, p.retry_until, p.created_at, p.description, p.schedule_id,
        p.traceparent, p.on_broken, p.actor, p.idempotency_key, p.refund_of))
$$;
CREATE OR REPLACE FUNCTION payment_digest(p payment) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(payment_record(p))
$$;

-- job.completed and job.failed: the outcome, as the execution left it.
CREATE OR REPLACE FUNCTION outcome_record(o outcome) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT record_send(ROW(
        o.bucket, o.attempt, o.tenant_id, o.subject, o.status, o.due_at, o.started_at,
        o.finished_at, o.transfer_id, o.http_status, o.execution_id, o.code, o.error, o.response,
        o.node_id, o.token, o.actor, o.from_version, o.to_version, o.doubt))
$$;
CREATE OR REPLACE FUNCTION outcome_digest(o outcome) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(outcome_record(o))
$$;

-- payment.completed: the outcome and the transfer. The columns that are left out are those by which
-- the transfer is found, and the outcome has them.
CREATE OR REPLACE FUNCTION transfer_record(o outcome, t transfer) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT record_send(ROW(
        o.bucket, o.attempt, o.tenant_id, o.subject, o.status, o.due_at, o.started_at,
        o.finished_at, o.transfer_id, o.http_status, o.execution_id, o.code, o.error, o.response,
        o.node_id, o.token, o.actor, o.from_version, o.to_version, o.doubt, t.to_bucket, t.amount,
        t.from_account, t.from_balance, t.to_account, t.to_balance, t.created_at))
$$;
CREATE OR REPLACE FUNCTION transfer_digest(o outcome, t transfer) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(transfer_record(o, t))
$$;

-- The id of the event that tells of a job's end: the job's own at another time, so that events
-- sort by their ids. One bit differs, should both fall into one millisecond. A test clock may be
-- behind the server's, by which ids are made: the end never sorts before the beginning.
CREATE OR REPLACE FUNCTION outcome_event_id(subject uuid, finished_at timestamptz) RETURNS uuid
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN isfinite(finished_at) THEN encode(
        greatest(
            substring(int8send((date_part('epoch', finished_at) * 1000)::bigint) FROM 3),
            substring(uuid_send(subject) FOR 6))
        || substring(set_byte(uuid_send(subject), 8, get_byte(uuid_send(subject), 8) # 32) FROM 7),
        'hex')::uuid END
$$;

-- Everything else: the row of the event.
CREATE OR REPLACE FUNCTION event_record(e event) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT record_send(ROW(
        e.bucket, e.tenant_id, e.subject, e.event_id, e.time, e.type, e.actor, e.data, e.state))
$$;
CREATE OR REPLACE FUNCTION event_digest(e event) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(event_record(e))
$$;

-- The data of events as clients see them.
CREATE OR REPLACE FUNCTION job_accepted_data(j job) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'lane', (SELECT l.name FROM lane l WHERE l.lane_id = j.lane_id),
        'due_at', instant_text(j.due_at))
$$;

CREATE OR REPLACE FUNCTION payment_scheduled_data(p payment) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'from_account_id', p.from_account, 'to_account_id', p.to_account, 'amount', p.amount,
        'scheduled_time', instant_text(p.due_at))
$$;

CREATE OR REPLACE FUNCTION payment_completed_data(p payment, transfer_id uuid) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'transfer_id', transfer_id, 'from_account_id', p.from_account,
        'to_account_id', p.to_account, 'amount', p.amount)
$$;

-- A plain success at the first attempt needs no word.
CREATE OR REPLACE FUNCTION job_ended_data(o outcome) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT nullif(jsonb_strip_nulls(jsonb_build_object(
        'attempt', CASE WHEN o.attempt > 1 OR o.code <> '' THEN o.attempt END,
        'http_status', o.http_status, 'code', o.code, 'error', o.error,
        'in_doubt', CASE WHEN o.doubt <> '' THEN true END)), '{}')
$$;

-- What an address leads to, and the bytes that its digest is taken of; no row where it is gone. Of
-- the branches only one is ever begun: each has a condition on the address alone. An event never
-- has the id of its subject: an event with the address of a job or payment makes no second
-- row. A fact of another type or id than the address says has no bytes to take a digest of. Callers
-- put it into LATERAL (… OFFSET 0), so that it stays one lookup by key. So does the transfer: the
-- planner takes each partition for a row, joined a hash of them instead, and read everything of
-- the bucket once for each payment into it.
CREATE OR REPLACE FUNCTION fact_find(
    of_tenant integer, of_type text, of_subject uuid, of_event uuid)
    RETURNS TABLE ("time" timestamptz, actor text, data jsonb, record bytea)
    LANGUAGE sql STABLE AS $$
    SELECT j.created_at, j.actor, job_accepted_data(ROW(j.*)::job),
           job_record(ROW(j.*)::job)
      FROM job j
     WHERE of_type = 'job.accepted' AND of_event = of_subject
       AND j.bucket = bucket_of(of_subject) AND j.tenant_id = of_tenant AND j.job_id = of_subject
     UNION ALL
    SELECT p.created_at, p.actor, payment_scheduled_data(ROW(p.*)::payment),
           payment_record(ROW(p.*)::payment)
      FROM payment p
     WHERE of_type = 'payment.scheduled' AND of_event = of_subject
       AND p.bucket = bucket_of(of_subject) AND p.tenant_id = of_tenant
       AND p.payment_id = of_subject
     UNION ALL
    SELECT o.finished_at, o.actor, payment_completed_data(ROW(p.*)::payment, o.transfer_id),
           transfer_record(ROW(o.*)::outcome, moved.transfer)
      FROM outcome o
      LEFT JOIN payment p ON p.bucket = o.bucket AND p.tenant_id = o.tenant_id
       AND p.payment_id = o.subject
      LEFT JOIN LATERAL (
           SELECT ROW(t.*)::transfer AS transfer FROM transfer t
            WHERE t.bucket = o.bucket AND t.tenant_id = o.tenant_id
              AND t.from_account = p.from_account AND t.from_version = o.from_version
              AND t.to_version = o.to_version AND t.transfer_id = o.transfer_id
              AND t.payment_id = o.subject AND t.reason IS NULL OFFSET 0) AS moved ON true
     WHERE of_type = 'payment.completed' AND o.bucket = bucket_of(of_subject)
       AND o.subject = of_subject AND o.tenant_id = of_tenant AND o.transfer_id = of_event
     UNION ALL
    SELECT o.finished_at, o.actor, job_ended_data(ROW(o.*)::outcome),
           CASE WHEN of_event = outcome_event_id(o.subject, o.finished_at)
                 AND (of_type = 'job.completed') = (o.status = 'COMPLETED')
                THEN outcome_record(ROW(o.*)::outcome) ELSE '' END
      FROM outcome o
     WHERE of_type IN ('job.completed', 'job.failed') AND o.bucket = bucket_of(of_subject)
       AND o.subject = of_subject AND o.tenant_id = of_tenant AND o.actor IS NOT NULL
     UNION ALL
    SELECT e.time, e.actor, e.data,
           CASE WHEN e.type = of_type THEN event_record(ROW(e.*)::event) ELSE '' END
      FROM event e
     WHERE e.bucket = bucket_of(of_subject) AND e.tenant_id = of_tenant
       AND e.subject = of_subject AND e.event_id = of_event AND of_event <> of_subject
$$;

-- Everything that was told of one subject, in no order.
CREATE OR REPLACE FUNCTION fact_of_subject(of_tenant integer, of_subject uuid)
    RETURNS TABLE (event_id uuid, type text, "time" timestamptz, actor text, data jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT j.job_id, 'job.accepted', j.created_at, j.actor,
           job_accepted_data(ROW(j.*)::job)
      FROM job j
     WHERE j.bucket = bucket_of(of_subject) AND j.tenant_id = of_tenant AND j.job_id = of_subject
     UNION ALL
    SELECT p.payment_id, 'payment.scheduled', p.created_at, p.actor,
           payment_scheduled_data(ROW(p.*)::payment)
      FROM payment p
     WHERE p.bucket = bucket_of(of_subject) AND p.tenant_id = of_tenant
       AND p.payment_id = of_subject
     UNION ALL
    SELECT o.transfer_id, 'payment.completed', o.finished_at, o.actor,
           payment_completed_data(ROW(p.*)::payment, o.transfer_id)
      FROM outcome o JOIN payment p ON p.bucket = o.bucket AND p.tenant_id = o.tenant_id
       AND p.payment_id = o.subject
     WHERE o.bucket = bucket_of(of_subject) AND o.subject = of_subject
       AND o.tenant_id = of_tenant AND o.transfer_id IS NOT NULL
     UNION ALL
    SELECT outcome_event_id(o.subject, o.finished_at),
           CASE o.status WHEN 'COMPLETED' THEN 'job.completed' ELSE 'job.failed' END,
           o.finished_at, o.actor, job_ended_data(ROW(o.*)::outcome)
      FROM outcome o
     WHERE o.bucket = bucket_of(of_subject) AND o.subject = of_subject
       AND o.tenant_id = of_tenant AND o.actor IS NOT NULL AND o.transfer_id IS NULL
     UNION ALL
    SELECT e.event_id, e.type, e.time, e.actor, e.data
      FROM event e
     WHERE e.bucket = bucket_of(of_subject) AND e.tenant_id = of_tenant AND e.subject = of_subject
$$;

-- An event by its subject and id. The planner inlines this function.
CREATE OR REPLACE FUNCTION event_find(of_subject uuid, of_event uuid)
    RETURNS TABLE ("time" timestamptz, actor text, data jsonb) LANGUAGE sql STABLE AS $$
    SELECT e.time, e.actor, e.data FROM event e
     WHERE e.bucket = bucket_of(of_subject) AND e.subject = of_subject AND e.event_id = of_event
$$;

-- Whether a payment pays one of these accounts, or is paid from one.
CREATE OR REPLACE FUNCTION payment_touches(of_tenant integer, of_subject uuid, accounts text[])
    RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM payment p
                    WHERE p.bucket = bucket_of(of_subject) AND p.tenant_id = of_tenant
                      AND p.payment_id = of_subject
                      AND (p.from_account = ANY (accounts) OR p.to_account = ANY (accounts)));
END $$;
