-- Facts: what was told and sealed, where it is stored, how it is shown, and what its digest covers.
--
-- An event is an address: tenant, type, subject and event id. Most lead to the fact itself (a job,
-- a payment), the others to a row of `event`. A digest covers every column of its fact. It is taken
-- of the binary form of the values, which is the same whatever the settings of a session are (our
-- connections all speak UTF-8), and it names the columns: one that a later migration adds is no
-- part of the digests that were sealed before. STABLE lets the planner inline these functions.

-- job.accepted: the job as it was asked for.
CREATE OR REPLACE FUNCTION job_digest(j job) RETURNS bytea LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(record_send(ROW(
        j.bucket, j.tenant_id, j.job_id, j.lane_id, j.due_at, j.effective_at, j.expires_at,
        j.created_at, j.destination, j.policy, j.payload, j.content_type, j.payload_ref,
        j.spread_seconds, j.metadata, j.description, j.schedule_id, j.origin_id, j.traceparent,
        j.actor)))
$$;

-- payment.scheduled: the payment as it was asked for.
CREATE OR REPLACE FUNCTION payment_digest(p payment) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(record_send(ROW(
        p.bucket, p.tenant_id, p.payment_id, p.from_account, p.to_account, p.amount, p.due_at,
        p.hold, p.retry_until, p.created_at, p.description, p.schedule_id, p.traceparent,
        p.on_broken, p.actor)))
$$;

-- Everything else: the row of the event.
CREATE OR REPLACE FUNCTION event_digest(e event) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(record_send(ROW(
        e.bucket, e.tenant_id, e.subject, e.event_id, e.time, e.type, e.actor, e.data, e.state)))
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

-- The end of a payment is the busiest event and is stored without any: its id is that of the
-- transfer, and the payment says the rest.
CREATE OR REPLACE FUNCTION event_data(e event) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce(e.data, (
        SELECT jsonb_build_object('transfer_id', e.event_id, 'from_account_id', p.from_account,
                                  'to_account_id', p.to_account, 'amount', p.amount)
          FROM payment p
         WHERE e.type = 'payment.completed' AND p.bucket = e.bucket
           AND p.tenant_id = e.tenant_id AND p.payment_id = e.subject))
$$;

-- What an address leads to; no row where it is gone. Of the branches only one is ever begun: each
-- has a condition on the address alone. Callers put it into LATERAL (… OFFSET 0), so that it stays
-- a look-up by key.
CREATE OR REPLACE FUNCTION fact_find(
    of_tenant integer, of_type text, of_subject uuid, of_event uuid)
    RETURNS TABLE ("time" timestamptz, actor text, data jsonb, digest bytea)
    LANGUAGE sql STABLE AS $$
    SELECT j.created_at, j.actor, job_accepted_data(j), job_digest(j)
      FROM job j
     WHERE of_type = 'job.accepted' AND of_event = of_subject
       AND j.bucket = bucket_of(of_subject) AND j.tenant_id = of_tenant AND j.job_id = of_subject
     UNION ALL
    SELECT p.created_at, p.actor, payment_scheduled_data(p), payment_digest(p)
      FROM payment p
     WHERE of_type = 'payment.scheduled' AND of_event = of_subject
       AND p.bucket = bucket_of(of_subject) AND p.tenant_id = of_tenant
       AND p.payment_id = of_subject
     UNION ALL
    SELECT e.time, e.actor, event_data(e), event_digest(e)
      FROM event e
     WHERE e.bucket = bucket_of(of_subject) AND e.tenant_id = of_tenant
       AND e.subject = of_subject AND e.event_id = of_event
$$;

-- Everything that was told of one subject, in no order.
CREATE OR REPLACE FUNCTION fact_of_subject(of_tenant integer, of_subject uuid)
    RETURNS TABLE (event_id uuid, type text, "time" timestamptz, actor text, data jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT j.job_id, 'job.accepted', j.created_at, j.actor, job_accepted_data(j)
      FROM job j
     WHERE j.bucket = bucket_of(of_subject) AND j.tenant_id = of_tenant AND j.job_id = of_subject
     UNION ALL
    SELECT p.payment_id, 'payment.scheduled', p.created_at, p.actor, payment_scheduled_data(p)
      FROM payment p
     WHERE p.bucket = bucket_of(of_subject) AND p.tenant_id = of_tenant
       AND p.payment_id = of_subject
     UNION ALL
    SELECT e.event_id, e.type, e.time, e.actor, event_data(e)
      FROM event e
     WHERE e.bucket = bucket_of(of_subject) AND e.tenant_id = of_tenant AND e.subject = of_subject
$$;
