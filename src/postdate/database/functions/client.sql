-- Your own transaction: who asks, what is refused and how, and the one commit that accepts.
--
-- enqueue, schedule_payment and cancel check as strictly as the API and write one row of
-- client_request. Everything that others could wait for (keys, holds, timers, halts) happens in
-- client_accept, when the client's transaction commits. A refusal there fails that commit: what is
-- committed is scheduled, what is not was never there.

-- Refuse in the words of the API: SQLSTATE PD and its HTTP status, the stable code and the field in
-- DETAIL as JSON, what helps in HINT.
CREATE OR REPLACE FUNCTION client_refuse(
    status integer, code text, message text, field text DEFAULT NULL, hint text DEFAULT NULL,
    more jsonb DEFAULT '{}') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING MESSAGE = client_refuse.message, ERRCODE = 'PD' || status,
        DETAIL = jsonb_strip_nulls(jsonb_build_object('code', code, 'field', field)) || more,
        HINT = coalesce(hint, 'See ' || code || ' in the reference of errors.');
END $$;

CREATE OR REPLACE FUNCTION client_wrong(field text, message text) RETURNS void
    LANGUAGE sql AS $$SELECT client_refuse(422, 'invalid_field', message, field, message)$$;

-- The login role as it was bound, if it may do this.
CREATE OR REPLACE FUNCTION client_identity(scope text) RETURNS client_role
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found client_role;
BEGIN
    PERFORM client_clock();
    SELECT r.* INTO found FROM client_role r JOIN tenant t USING (tenant_id)
     WHERE r.role_name = session_user AND t.disabled_at IS NULL;
    IF (SELECT t.test FROM tenant t WHERE t.tenant_id = found.tenant_id) THEN
        PERFORM client_refuse(409, 'conflict', 'The tenant is in test mode.', NULL,
                              'A tenant in test mode works over HTTP only.');
    END IF;
    IF found.role_name IS NULL THEN
        PERFORM client_refuse(403, 'forbidden',
            format('The login role %s is not bound to a tenant.', session_user), NULL,
            format('postdate tenant bind-role %s --tenant NAME', session_user));
    ELSIF scope <> ALL (found.scopes) THEN
        PERFORM client_refuse(403, 'forbidden',
            format('The login role %s lacks the scope %s.', session_user, scope), NULL,
            format('It has: %s.', array_to_string(found.scopes, ', ')),
            jsonb_build_object('scope', scope));
    ELSIF scope = 'jobs:write' AND found.accounts IS NOT NULL THEN
        PERFORM client_refuse(403, 'forbidden', 'A role limited to accounts has no jobs.');
    -- One row tells for all: each was compared with one before it.
    ELSIF (SELECT r.tenant_id FROM client_request r
           WHERE r.transaction = pg_current_xact_id_if_assigned() LIMIT 1) <> found.tenant_id THEN
        PERFORM client_refuse(409, 'conflict',
            'This transaction has asked for something on behalf of another tenant.', NULL,
            'One transaction speaks for one tenant.');
    END IF;
    RETURN found;
END $$;

-- The setting that holds for a tenant, as model/setting decides it: the operator's value bounds the
-- tenant's own. Defaults, and what a tenant may do about them, are written by `postdate migrate`.
CREATE OR REPLACE FUNCTION client_setting(of_tenant integer, of_name text) RETURNS jsonb
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    rule setting_default;
    allowed jsonb;
    own jsonb;
BEGIN
    SELECT * INTO STRICT rule FROM setting_default d WHERE d.name = of_name;
    SELECT (SELECT s.value FROM setting s
             WHERE s.name = of_name AND s.operator AND s.tenant_id IN (0, of_tenant)
             ORDER BY s.tenant_id DESC LIMIT 1),
           (SELECT s.value FROM setting s
             WHERE s.name = of_name AND NOT s.operator AND s.tenant_id = of_tenant)
      INTO allowed, own;
    allowed := coalesce(allowed, rule.value);
    IF own IS NULL THEN
        RETURN allowed;
    END IF;
    RETURN CASE WHEN CASE rule.tenant_may
        WHEN 'choose' THEN true
        WHEN 'lower' THEN client_setting_rank(rule, own) <= client_setting_rank(rule, allowed)
        WHEN 'raise' THEN client_setting_rank(rule, own) >= client_setting_rank(rule, allowed)
        ELSE false END THEN own ELSE allowed END;
END $$;

-- Where a value stands among all of its setting: a text by the order of its choices.
CREATE OR REPLACE FUNCTION client_setting_rank(rule setting_default, value jsonb) RETURNS numeric
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(value) = 'string'
                THEN array_position(rule.choices, value #>> '{}')
                WHEN rule.zero_is_none AND value = '0' THEN 'Infinity'
                ELSE value::numeric END
$$;

-- An id that carries its bucket and ends in eight given bytes, or in random ones.
CREATE OR REPLACE FUNCTION client_new_id(bucket integer, tail bytea, at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS $$
    SELECT encode(substring(int8send((date_part('epoch', at) * 1000)::bigint) FROM 3)
                  || decode('70' || lpad(to_hex(bucket), 2, '0'), 'hex')
                  || set_byte(made, 0, get_byte(made, 0) & 63 | 128), 'hex')::uuid
      FROM (SELECT coalesce(tail, substring(uuid_send(gen_random_uuid()) FOR 6)
                    || substring(uuid_send(gen_random_uuid()) FOR 2))) AS given (made)
$$;

-- The hash under which a client's key is kept: the same as idempotency.key_of.
CREATE OR REPLACE FUNCTION client_key(scope integer, of_tenant integer, key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE AS $$
    SELECT encode(substring(sha256(convert_to(scope || '//' || of_tenant || '/' || key, 'UTF8'))
                            FOR 16), 'hex')::uuid
$$;

CREATE OR REPLACE FUNCTION client_check_key(key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- Not by one pattern: to count to 255 is what costs most in it.
    IF key ~ '[^ -~]' OR NOT length(key) BETWEEN 1 AND 255 THEN
        PERFORM client_refuse(422, 'idempotency_key_invalid',
            'A key has 1 to 255 printable ASCII characters.', 'idempotency_key');
    END IF;
END $$;

-- In which fields two requests differ.
CREATE OR REPLACE FUNCTION client_differs(before jsonb, after jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(name ORDER BY name), '{}')
      FROM jsonb_object_keys(before || after) AS name
     WHERE before -> name IS DISTINCT FROM after -> name
$$;

CREATE OR REPLACE FUNCTION client_refuse_reused(differs text[]) RETURNS void
    LANGUAGE sql AS $$
    SELECT client_refuse(422, 'idempotency_key_reused',
        format('The key was used with another %s.',
               coalesce(nullif(array_to_string(differs, ', '), ''), 'request')),
        differs[1], 'Use a key of its own for each new thing.',
        jsonb_build_object('differs', differs))
$$;

-- Refuse where the tenant is halted. The asking transaction has a share of a lock of the tenant's
-- own until its commit, so that a switch can wait for it; the lock of all nodes (halt_share) is
-- none of a client's business, who may hold it for as long as it likes.
CREATE OR REPLACE FUNCTION client_refuse_halted(of_tenant integer, new_work boolean) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM tenant_halt h
                WHERE h.tenant_id = of_tenant
                  AND (h.kind = 'kill' OR (h.mode = 'drain' AND new_work))
                  AND h.lifted_at IS NULL AND h.from_at <= greatest(clock(), h.set_at)
                  AND (h.until_at IS NULL OR h.until_at > clock())) THEN
        PERFORM client_refuse(409, 'tenant_halted', 'The tenant accepts nothing now.', NULL,
                              'GET /halts says why, who set it, and until when.');
    END IF;
END $$;

CREATE OR REPLACE FUNCTION halt_client_alone(of_tenant integer) RETURNS void
    LANGUAGE sql SET search_path FROM CURRENT SET lock_timeout = '1s' AS
    $$SELECT lock_named('halt_client', of_tenant)$$;

-- Hold a tenant to its quota: what was counted last, and what clients have added since.
CREATE OR REPLACE FUNCTION client_count(of_tenant integer, of_kind text, more bigint) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    most bigint := client_setting(of_tenant, 'quota.pending_' || of_kind)::bigint;
    now_pending bigint;
BEGIN
    IF most = 0 OR more = 0 THEN RETURN; END IF;
    INSERT INTO tenant_pending AS p VALUES (of_tenant, of_kind, more)
    ON CONFLICT (tenant_id, kind) DO UPDATE SET pending = p.pending + excluded.pending
    RETURNING pending INTO now_pending;
    IF now_pending > most THEN
        PERFORM client_refuse(409, 'quota_exceeded',
            format('The tenant may have %s pending %s.', most, of_kind), NULL, NULL,
            jsonb_build_object('quota', most));
    END IF;
END $$;

-- Record an event about a job or payment; `changes` seals it with the state of an approval.
CREATE OR REPLACE FUNCTION client_event(
    of_tenant integer, of_subject uuid, of_type text, by_actor text, says jsonb, changes boolean)
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    told event;
    -- Before the row: in the midst of one Citus would ask for it whatever `changes` says.
    leaves bytea := CASE WHEN changes THEN state_now(of_type, of_tenant, of_subject, says) END;
BEGIN
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data, state)
    VALUES (bucket_of(of_subject), of_tenant, of_subject,
            client_new_id(bucket_of(of_subject), NULL,
                          greatest(clock(), uuid_instant(of_subject) + interval '1 ms')),
            of_type, by_actor, says, leaves)
    RETURNING * INTO told;
    INSERT INTO outbox (bucket, tenant_id, time, types, subjects, events, digests)
    VALUES (told.bucket, told.tenant_id, told.time, ARRAY[told.type], ARRAY[told.subject],
            ARRAY[told.event_id], event_digest(told));
END $$;

-- Accept all that this transaction asked for. The first trigger of a commit does it for all rows,
-- so that accounts are locked in the one order; the others find their rows gone.
CREATE OR REPLACE FUNCTION client_accept() RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    mine xid8 := pg_current_xact_id();
    of_tenant integer;
    new_work boolean;
    keys idempotency_columns;
BEGIN
    SELECT min(r.tenant_id), bool_or(r.kind <> 'cancel') INTO of_tenant, new_work
      FROM client_request r WHERE r.transaction = mine;
    IF of_tenant IS NULL THEN RETURN; END IF;
    PERFORM client_clock();
    -- What is confirmed must be kept, whatever the session has chosen for itself.
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM lock_named_share('halt_client', of_tenant);
    PERFORM client_refuse_halted(of_tenant, new_work);
    PERFORM client_accept_jobs(mine, of_tenant);
    PERFORM client_accept_cancels(mine, of_tenant);
    PERFORM client_accept_payments(mine, of_tenant);
    -- The keys last: a transaction that waits for a key waits for nothing else.
    SELECT array_agg((get_byte(uuid_send(key), 0) & 63)::smallint ORDER BY key),
           array_agg(CASE kind WHEN 'job' THEN 1 ELSE 3 END::smallint ORDER BY key),
           array_agg(key ORDER BY key), array_agg(fingerprint ORDER BY key),
           array_agg(CASE WHEN NOT body ? 'merged' THEN subject END ORDER BY key),
           array_agg(CASE WHEN body ? 'merged' THEN client_unique_kept(r) END ORDER BY key)
      INTO keys.bucket, keys.scope, keys.hash, keys.fingerprint, keys.subject, keys.kept
      FROM client_request r WHERE r.transaction = mine AND r.key IS NOT NULL;
    keys.tenant_id := ARRAY[of_tenant];
    keys.created_at := ARRAY[clock()];
    PERFORM idempotency_insert(keys) WHERE keys.hash IS NOT NULL;
    DELETE FROM client_request r WHERE r.transaction = mine;
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION USING ERRCODE = 'PD503',
            MESSAGE = 'Another transaction holds the account or the timer just now.',
            DETAIL = '{"code": "overloaded", "retry_after_seconds": 1}',
            HINT = 'Nothing was done: run the transaction again.';
    WHEN unique_violation THEN
        RAISE EXCEPTION USING ERRCODE = 'serialization_failure',
            MESSAGE = 'Another transaction has used the key, or made the lane, meanwhile.',
            DETAIL = '{"code": "idempotency_in_flight", "retry_after_seconds": 1}',
            HINT = 'Nothing was done: run the transaction again.';
END $$;

-- Bind a login role to a tenant, and let it use the functions, as far as this database lets us:
-- returns what an administrator has to run where it does not.
CREATE OR REPLACE FUNCTION client_bind(
    of_role text, of_tenant integer, of_scopes text[], of_accounts text[], of_max bigint,
    by_actor text) RETURNS text LANGUAGE plpgsql
    SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    admit text := format('GRANT postdate_client TO %I', of_role);
    advisory text;
BEGIN
    INSERT INTO client_role (role_name, tenant_id, scopes, accounts, max_amount, bound_by,
                             bound_at)
    VALUES (of_role, of_tenant, of_scopes, of_accounts, of_max, by_actor, clock())
    ON CONFLICT (role_name) DO UPDATE SET tenant_id = excluded.tenant_id,
        scopes = excluded.scopes, accounts = excluded.accounts, max_amount = excluded.max_amount,
        bound_at = excluded.bound_at, bound_by = excluded.bound_by;
    -- The lock that its transactions share.
    INSERT INTO named_lock VALUES ('halt_client', of_tenant) ON CONFLICT DO NOTHING;
    BEGIN
        EXECUTE admit;
        admit := NULL;
    EXCEPTION WHEN insufficient_privilege OR invalid_grant_operation THEN
        NULL;
    END;
    -- All logins share the memory for locks: filling it with advisory locks stops the server.
    SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC',
                  string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.oid)) INTO advisory
      FROM pg_proc p
     WHERE p.pronamespace = 'pg_catalog'::regnamespace
       AND p.proname ~ '^pg_(try_)?advisory_(xact_)?lock'
       AND has_function_privilege('public', p.oid, 'EXECUTE') HAVING count(*) > 0;
    RETURN nullif(concat_ws('; ', admit, advisory), '');
END $$;

REVOKE EXECUTE ON FUNCTION client_refuse, client_wrong, client_identity, client_setting,
    client_setting_rank, client_new_id, client_key, client_check_key, client_differs,
    client_refuse_reused, client_refuse_halted, halt_client_alone, client_count, client_event,
    client_accept, client_bind FROM PUBLIC;
GRANT EXECUTE ON FUNCTION halt_client_alone, client_bind TO postdate_writer;
GRANT USAGE ON SCHEMA postdate TO postdate_client;
