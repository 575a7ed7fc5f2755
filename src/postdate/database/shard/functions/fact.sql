-- Facts: one kind at a time.

CREATE OR REPLACE FUNCTION fact_find(
    of_tenant integer, of_type text, of_subject uuid, of_event uuid)
    RETURNS TABLE ("time" timestamptz, actor text, data jsonb, record bytea)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    place smallint := bucket_of(of_subject);
    ended outcome;
    paid payment;
    moved transfer;
BEGIN
    IF of_type = 'job.accepted' AND of_event = of_subject THEN
        RETURN QUERY
        SELECT j.created_at, j.actor, job_accepted_data(ROW(j.*)::job), job_record(ROW(j.*)::job)
          FROM job j
         WHERE j.bucket = place AND j.tenant_id = of_tenant AND j.job_id = of_subject;
    ELSIF of_type = 'payment.scheduled' AND of_event = of_subject THEN
        RETURN QUERY
        SELECT p.created_at, p.actor, payment_scheduled_data(ROW(p.*)::payment),
               payment_record(ROW(p.*)::payment)
          FROM payment p
         WHERE p.bucket = place AND p.tenant_id = of_tenant AND p.payment_id = of_subject;
    ELSIF of_type IN ('job.completed', 'job.failed') THEN
        RETURN QUERY
        SELECT o.finished_at, o.actor, job_ended_data(ROW(o.*)::outcome),
               outcome_record(ROW(o.*)::outcome)
          FROM outcome o
         WHERE o.bucket = place AND o.subject = of_subject AND o.tenant_id = of_tenant
           AND o.actor IS NOT NULL;
    ELSIF of_type = 'payment.completed' THEN
        SELECT o.* INTO ended FROM outcome o
         WHERE o.bucket = place AND o.subject = of_subject AND o.tenant_id = of_tenant
           AND o.transfer_id = of_event;
        IF ended.subject IS NOT NULL THEN
            SELECT p.* INTO paid FROM payment p
             WHERE p.bucket = place AND p.tenant_id = of_tenant AND p.payment_id = of_subject;
            SELECT t.* INTO moved FROM transfer t
             WHERE t.bucket = place AND t.tenant_id = of_tenant
               AND t.from_account = paid.from_account AND t.from_version = ended.from_version
               AND t.to_version = ended.to_version AND t.transfer_id = of_event
               AND t.payment_id = of_subject AND t.reason IS NULL;
            RETURN QUERY
            SELECT ended.finished_at, ended.actor, payment_completed_data(paid, of_event),
                   transfer_record(ended, moved);
        END IF;
    END IF;
    IF of_event <> of_subject THEN
        RETURN QUERY
        SELECT e.time, e.actor, e.data, event_record(ROW(e.*)::event)
          FROM event e
         WHERE e.bucket = place AND e.tenant_id = of_tenant AND e.subject = of_subject
           AND e.event_id = of_event;
    END IF;
END $$;
