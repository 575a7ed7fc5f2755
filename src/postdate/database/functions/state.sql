-- State: what a change leaves behind is sealed with its event, so that a row which is changed in
-- another way no longer agrees with the chain.

-- The kind of row that an event with a state tells of.
CREATE OR REPLACE FUNCTION state_noun(type text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN type IN ('tenant.killed', 'tenant.released') THEN 'kill'
                WHEN type IN ('tenant.frozen', 'tenant.thawed') THEN 'freeze'
                WHEN type IN ('tenant.role_bound', 'tenant.role_unbound') THEN 'role'
                WHEN type IN ('job.rescheduled', 'job.changed', 'job.replaced', 'job.debounced')
                THEN 'revision'
                WHEN type IN ('job.retried', 'job.unknown', 'payment.retried',
                              'payment.dead_lettered') THEN 'attempt'
                WHEN type LIKE 'payment.%' THEN 'approval'
                WHEN type = 'account.repaired' THEN 'repair'
                ELSE split_part(type, '.', 1) END
$$;

-- Everything that was decided about one row, as text, or that was written down of a job's last
-- eight changes, of the one that carries its payload, and of the last eight attempts at a job or
-- payment (a lost lease tells of nothing): a request more must not cost more. NULL where
-- there is no such row. What changes with the work (balances, positions, progress, last use) is
-- proved in other ways, and an encrypted envelope may be written anew with another key.
CREATE OR REPLACE FUNCTION state_text(
    noun text, of_tenant integer, of_subject uuid, name text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    place smallint := bucket_of(of_subject);
    newest integer;
    found text;
BEGIN
    CASE noun
    WHEN 'account' THEN
        SELECT ROW(floor, max_amount, note, instant_text(frozen_at), instant_text(closed_at),
                   instant_text(created_at), currency)::text INTO found
          FROM account WHERE bucket = place AND tenant_id = of_tenant
           AND account_id = name;
    WHEN 'repair' THEN
        SELECT string_agg(ROW(version, balance, held, version_before, balance_before, held_before,
                              jumps, requested_by, approved_by, reason,
                              instant_text(repaired_at))::text, ' ' ORDER BY repaired_at)
          INTO found FROM account_repair WHERE bucket = place
           AND tenant_id = of_tenant AND account_id = name;
    WHEN 'approval' THEN
        SELECT ROW(requested_by, requested_persons, instant_text(requested_at),
                   instant_text(expires_at), decision, decided_by, decided_persons,
                   instant_text(decided_at), note)::text INTO found
          FROM payment_approval WHERE bucket = place AND tenant_id = of_tenant
           AND payment_id = of_subject;
    WHEN 'revision' THEN
        SELECT max(revision) INTO newest FROM job_revision
         WHERE bucket = place AND job_id = of_subject AND tenant_id = of_tenant;
        SELECT string_agg(ROW(r.revision, instant_text(r.due_at), instant_text(r.effective_at),
                              instant_text(r.expires_at), r.policy, r.payload_revision,
                              encode(sha256(r.payload), 'hex'), r.content_type, r.payload_ref,
                              instant_text(r.created_at), r.lane_id)::text, ' '
                          ORDER BY r.revision)
          INTO found FROM job_revision r
         WHERE r.bucket = place AND r.job_id = of_subject AND r.tenant_id = of_tenant
           AND (r.revision > newest - 8 OR r.revision = (
                SELECT l.payload_revision FROM job_revision l
                 WHERE l.bucket = place AND l.job_id = of_subject AND l.tenant_id = of_tenant
                   AND l.revision = newest));
    WHEN 'attempt' THEN
        SELECT string_agg(a.said, ' ' ORDER BY a.attempt) INTO found
          FROM (SELECT attempt, ROW(attempt, status, instant_text(due_at),
                       instant_text(started_at), instant_text(finished_at),
                       instant_text(retry_at), http_status, execution_id, code, error,
                       encode(sha256(response), 'hex'), node_id)::text AS said
                  FROM attempt
                 WHERE bucket = place AND subject = of_subject
                   AND tenant_id = of_tenant AND status <> 'LOST'
                 ORDER BY attempt DESC LIMIT 8) AS a;
    WHEN 'key' THEN
        SELECT ROW(encode(hash, 'hex'), note, scopes, accounts, max_amount, persons,
                   instant_text(created_at), instant_text(expires_at),
                   instant_text(revoked_at))::text INTO found
          FROM api_key WHERE key_id = of_subject AND tenant_id = of_tenant;
    WHEN 'setting' THEN
        SELECT string_agg(ROW(operator, value, changed_by)::text, ' ' ORDER BY operator)
          INTO found FROM setting s WHERE s.tenant_id = of_tenant AND s.name = $4;
    WHEN 'subscription' THEN
        SELECT ROW(destination, types, patterns, accounts, version, instant_text(paused_at),
                   paused_note, instant_text(created_at),
                   CASE WHEN paused_at IS NOT NULL THEN position END)::text INTO found
          FROM subscription WHERE bucket = place AND tenant_id = of_tenant
           AND subscription_id = of_subject;
    WHEN 'schedule' THEN
        SELECT ROW(s.version, instant_text(s.paused_at), instant_text(s.resumed_at),
                   s.paused_note, instant_text(s.set_aside_at), s.set_aside_error,
                   instant_text(s.ended_at), instant_text(s.deleted_at),
                   instant_text(s.created_at), v.versions)::text
          INTO found
          FROM schedule s CROSS JOIN LATERAL (
               SELECT string_agg(ROW(v.version, v.name, v.rule, v.policies, v.template::text,
                                     v.actor, v.template_by, v.persons, instant_text(v.since),
                                     instant_text(v.previous_until))::text, ' '
                                 ORDER BY v.version) AS versions
                 FROM schedule_version v WHERE v.bucket = s.bucket
                  AND v.tenant_id = s.tenant_id AND v.schedule_id = s.schedule_id) AS v
         WHERE s.bucket = place AND s.tenant_id = of_tenant
           AND s.schedule_id = of_subject;
    WHEN 'lane' THEN
        SELECT string_agg(DISTINCT ROW(weight, width, max_running, rate_per_second, per_key,
                                       instant_text(paused_at), paused_note, paused_by)::text,
                          ' ')
          INTO found FROM lane l WHERE l.tenant_id = of_tenant AND l.name = $4;
    WHEN 'destination' THEN
        SELECT ROW(type, url, kind, max_running, rate_per_second, instant_text(disabled_at),
                   disabled_reason, instant_text(paused_at), paused_reason, paused_by,
                   instant_text(created_at))::text INTO found
          FROM destination d WHERE d.tenant_id = of_tenant AND d.name = $4;
    WHEN 'calendar' THEN
        SELECT string_agg(ROW(weekend, holidays, instant_text(since))::text, ' ' ORDER BY since)
          INTO found
          FROM (SELECT c.weekend, c.holidays, NULL::timestamptz AS since
                  FROM calendar c WHERE c.tenant_id = of_tenant AND c.name = $4
                 UNION ALL
                SELECT v.weekend, v.holidays, v.since FROM calendar_version v
                 WHERE v.tenant_id = of_tenant AND v.name = $4) AS held;
    WHEN 'change_set' THEN
        SELECT ROW(status, note, created_by, instant_text(created_at), changes, summary,
                   encode(sha256(convert_to(steps::text, 'UTF8')), 'hex'))::text INTO found
          FROM change_set WHERE bucket = place AND tenant_id = of_tenant
           AND change_set_id = of_subject;
    WHEN 'tenant' THEN
        SELECT ROW(t.name, test, instant_text(created_at), instant_text(disabled_at))::text
          INTO found FROM tenant t WHERE t.tenant_id = of_tenant;
    WHEN 'role' THEN
        SELECT ROW(scopes, accounts, max_amount, instant_text(bound_at), bound_by)::text
          INTO found FROM client_role r WHERE r.tenant_id = of_tenant AND r.role_name = $4;
    WHEN 'receipt_key' THEN
        SELECT ROW(encode(public_key, 'hex'), instant_text(created_at))::text INTO found
          FROM receipt_key k WHERE k.key_id = $4;
    WHEN 'kill', 'freeze' THEN
        SELECT ROW(mode, instant_text(from_at), instant_text(until_at), note, set_by)::text
          INTO found FROM tenant_halt h
         WHERE h.tenant_id = of_tenant AND h.kind = noun AND h.lifted_at IS NULL;
    END CASE;
    RETURN found;
END $$;

-- The digest of the row that an event tells of, as it is now. Without such a row it is that of
-- nothing: what was deleted must stay so.
CREATE OR REPLACE FUNCTION state_now(
    type text, of_tenant integer, of_subject uuid, data jsonb) RETURNS bytea
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT sha256(convert_to(coalesce(state_text(
        state_noun(type), of_tenant, of_subject,
        coalesce(data ->> 'account_id', data ->> 'lane', data ->> 'calendar', data ->> 'name')),
        ''), 'UTF8'))
$$;
-- What the last event of a row left behind, by the order in which events were sealed. By their
-- times another one may come last: the clock was set back between them. One whose seal is not found
-- counts as older than all others, so that a row in the outbox excuses nothing.
CREATE OR REPLACE FUNCTION state_last_sealed(
    of_bucket smallint, of_tenant integer, of_subject uuid, noun text) RETURNS bytea
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT e.state FROM event e
     WHERE e.bucket = of_bucket AND e.tenant_id = of_tenant AND e.subject = of_subject
       AND e.state IS NOT NULL AND state_noun(e.type) = noun
     ORDER BY seal_find(of_tenant, of_subject, e.event_id, e.time) DESC NULLS LAST,
              e.time DESC, e.event_id DESC LIMIT 1
$$;

REVOKE EXECUTE ON FUNCTION state_noun, state_text, state_now, state_last_sealed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION state_noun, state_text, state_now, state_last_sealed TO postdate_writer;
