-- Cancel in a client's own transaction: `postdate.cancel` checks, the commit carries it out.

-- End what is open, in the order asked for, when the client's transaction commits.
CREATE OR REPLACE FUNCTION cancel(id uuid) RETURNS void LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER SET search_path FROM CURRENT SET client_encoding = 'UTF8'
    SET standard_conforming_strings = on SET enable_seqscan = off AS $$
DECLARE
    payment_of payment;
    me client_role;
    staged text;
    -- Here: another database node would take its own login for the client's.
    of_tenant integer := (SELECT r.tenant_id FROM client_role r WHERE r.role_name = session_user);
BEGIN
    IF id IS NULL THEN
        PERFORM client_wrong('id', 'Give the id of a job or a payment.');
    END IF;
    SELECT r.kind INTO staged FROM client_request r
     WHERE r.transaction = pg_current_xact_id() AND r.subject = id AND r.kind <> 'cancel';
    SELECT p.* INTO payment_of FROM payment p
     WHERE p.bucket = bucket_of(id) AND p.payment_id = id AND p.tenant_id = of_tenant;
    me := client_identity(CASE WHEN payment_of.payment_id IS NOT NULL OR staged = 'payment'
                               THEN 'payments:write' ELSE 'jobs:write' END);
    -- What this very transaction asked for is simply no longer asked for.
    DELETE FROM client_request r
     WHERE r.transaction = pg_current_xact_id() AND r.subject = id AND r.kind <> 'cancel';
    IF FOUND THEN
        RETURN;
    END IF;
    PERFORM client_refuse_halted(me.tenant_id, false);
    IF me.accounts IS NOT NULL AND payment_of.from_account <> ALL (me.accounts) THEN
        PERFORM client_refuse(403, 'forbidden',
            format('The role may not pay from %s.', payment_of.from_account));
    END IF;
    PERFORM client_open(me.tenant_id, id);
    INSERT INTO client_request (tenant_id, kind, subject, actor)
    VALUES (me.tenant_id, 'cancel', id, 'role:' || me.role_name);
END $$;

-- Whether something can still be cancelled: true while it is open, false when it was cancelled
-- before, which is no mistake; else it is refused.
CREATE OR REPLACE FUNCTION client_open(of_tenant integer, id uuid) RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    is_payment boolean;
    timer_of timer;
    ended text;
BEGIN
    SELECT true INTO is_payment FROM payment p
     WHERE p.bucket = bucket_of(id) AND p.tenant_id = of_tenant AND p.payment_id = id;
    IF is_payment IS NULL AND NOT EXISTS (SELECT FROM job j WHERE j.bucket = bucket_of(id)
            AND j.tenant_id = of_tenant AND j.job_id = id) THEN
        PERFORM client_refuse(404, 'not_found', format('There is no job or payment %s.', id));
    END IF;
    SELECT t.* INTO timer_of FROM timer t
     WHERE t.bucket = bucket_of(id) AND t.subject = id AND t.tenant_id = of_tenant;
    IF timer_of.subject IS NOT NULL THEN
        IF is_payment IS NULL AND timer_of.due_at = 'infinity' THEN
            PERFORM client_refuse(409, 'conflict', 'The job is in doubt: resolve it instead.', NULL,
                                  NULL, '{"current_status": "UNKNOWN"}');
        END IF;
        RETURN true;
    END IF;
    SELECT o.status INTO ended FROM outcome o WHERE o.bucket = bucket_of(id) AND o.subject = id;
    IF ended = 'CANCELLED' THEN
        RETURN false;
    ELSIF is_payment THEN
        PERFORM client_refuse(409, 'payment_not_pending',
                              format('The payment %s is %s.', id, ended), NULL, NULL,
                              jsonb_build_object('payment_status', ended));
    END IF;
    PERFORM client_refuse(409, 'conflict', 'The job has already ended.', NULL, NULL,
                          jsonb_build_object('current_status', ended));
END $$;

CREATE OR REPLACE FUNCTION client_accept_cancels(mine xid8, of_tenant integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    asked client_request;
    paid payment;
    t timer;
    result text;
    may_take float8 := client_setting(of_tenant, 'job.cancel_deadline_seconds')::float8;
    stop record;
BEGIN
    FOR asked IN SELECT * FROM client_request r WHERE r.transaction = mine AND r.kind = 'cancel'
                  ORDER BY bucket_of(r.subject), r.subject LOOP
        SELECT * INTO t FROM timer WHERE bucket = bucket_of(asked.subject)
           AND subject = asked.subject AND tenant_id = of_tenant FOR UPDATE;
        CONTINUE WHEN NOT client_open(of_tenant, asked.subject);
        SELECT * INTO paid FROM payment p WHERE p.bucket = t.bucket AND p.tenant_id = of_tenant
           AND p.payment_id = t.subject;
        IF paid.payment_id IS NULL AND may_take > 0
           AND job_status(t.due_at, t.claimed_at, clock()) = 'RUNNING' THEN
            SELECT * INTO stop FROM job_cancel_request(
                t.bucket, of_tenant, ARRAY[t.subject], asked.actor, may_take);
            IF stop.fresh THEN
                PERFORM client_event(of_tenant, t.subject, 'job.cancel_requested', asked.actor,
                    jsonb_build_object('deadline', instant_text(stop.deadline)), false);
            END IF;
            CONTINUE;
        END IF;
        DELETE FROM timer WHERE bucket = t.bucket AND subject = t.subject;
        IF paid.payment_id IS NULL THEN
            result := job_cancel_result(t);
            INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                                 finished_at, code, doubt)
            VALUES (t.bucket, of_tenant, t.subject,
                    t.attempt + (t.claimed_at IS NOT NULL)::integer, 'CANCELLED',
                    coalesce(t.ready_at, t.due_at), t.claimed_at, clock(), result,
                    CASE result WHEN 'stopped_in_flight' THEN 'LAST'
                                WHEN 'cancelled_in_doubt' THEN 'EARLIER' END);
            PERFORM client_event(of_tenant, t.subject, 'job.cancelled', asked.actor,
                                 jsonb_build_object('result', result), false);
            CONTINUE;
        END IF;
        INSERT INTO outcome (bucket, tenant_id, subject, attempt, due_at, status, finished_at)
        VALUES (t.bucket, of_tenant, t.subject, t.token,
                CASE WHEN t.due_at = 'infinity' THEN t.ready_at ELSE t.due_at END, 'CANCELLED',
                clock());
        UPDATE payment_approval SET decision = 'withdrawn', decided_by = asked.actor,
               decided_at = clock()
         WHERE bucket = t.bucket AND tenant_id = of_tenant AND payment_id = t.subject
           AND decision IS NULL AND t.lane_id = 3;
        PERFORM client_event(of_tenant, t.subject, 'payment.cancelled', asked.actor, NULL,
                             t.lane_id = 3);
        -- Accounts come later, all in one order: client_accept_payments gives it back.
        UPDATE client_request SET body = jsonb_build_object('released', paid.amount, 'payer',
                                                            paid.from_account, 'bucket', t.bucket)
         WHERE transaction = mine AND subject = asked.subject AND number = asked.number
           AND paid.hold;
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION cancel, client_open, client_accept_cancels FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cancel TO postdate_client;
