-- Payments in your own transaction: the amount is held when it commits, not before, so that a long
-- transaction locks no account.

-- An account by its id. Its bucket is a hash that SQL does not know: each of the 64 is asked, which
-- are as many look-ups by key.
CREATE OR REPLACE FUNCTION client_account(of_tenant integer, of_account text) RETURNS account
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    known account;
BEGIN
    SELECT found.* INTO known FROM outbox_lock place
     CROSS JOIN LATERAL (SELECT a.* FROM account a WHERE a.bucket = place.bucket
                            AND a.tenant_id = of_tenant AND a.account_id = of_account
                          LIMIT 1) AS found;
    RETURN known;
END $$;

-- An account that can take part in a payment, or the refusal of ledger/hold.py.
CREATE OR REPLACE FUNCTION client_usable(of_tenant integer, of_account text, field text)
    RETURNS account LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    found account;
BEGIN
    IF of_account = 'issuer' THEN
        PERFORM client_refuse(422, 'account_reserved', 'issuer makes no payments.', field);
    END IF;
    found := client_account(of_tenant, of_account);
    IF found.account_id IS NULL THEN
        PERFORM client_refuse(422, 'unknown_account', format('There is no account %s.', of_account),
                              field, 'Create it first; other tenants'' accounts look missing too.');
    ELSIF found.closed_at IS NOT NULL THEN
        PERFORM client_refuse(409, 'account_closed',
                              format('The account %s is closed.', of_account), field);
    ELSIF found.frozen_at IS NOT NULL THEN
        PERFORM client_refuse(409, 'account_frozen',
                              format('The account %s is frozen.', of_account), field);
    END IF;
    RETURN found;
END $$;

CREATE OR REPLACE FUNCTION client_payment_due(body jsonb, at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE AS $$
    SELECT coalesce((body ->> 'scheduled_time')::timestamptz,
                    at + make_interval(secs => (body ->> 'delay_seconds')::float8))
$$;

CREATE OR REPLACE FUNCTION client_refuse_time(of_tenant integer, at timestamptz, field text)
    RETURNS void LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT client_refuse(422, 'time_out_of_range',
        format('The time must lie 1 to %s seconds ahead.', seconds), field, NULL,
        jsonb_build_object('earliest', instant_text(at + interval '1 s'), 'latest',
                           instant_text(at + make_interval(secs => seconds))))
      FROM (SELECT client_setting(of_tenant, 'payment.max_delay_seconds')::float8) AS may (seconds)
$$;

-- An amount as core.money writes it; `migrate` has written down the digits of the currencies.
CREATE OR REPLACE FUNCTION client_money_text(amount bigint, currency text) RETURNS text
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN amount < 0 THEN '-' ELSE '' END
        || to_char(div(abs(amount), 10::numeric ^ digits), 'FM999,999,999,999,999,999,990')
        || CASE WHEN digits > 0
                THEN '.' || lpad(mod(abs(amount), 10::numeric ^ digits)::bigint::text, digits, '0')
                ELSE '' END
        || coalesce(' ' || currency, '')
      FROM (SELECT coalesce((SELECT s.schema ->> currency FROM client_schema s
                              WHERE s.noun = 'currency')::integer, 0)) AS known (digits)
$$;

-- Decide about one payment as ledger/hold.py does, seeing what those before it have taken: at the
-- call as a hint, at the commit with the payers locked. Returns the payer and the payee.
CREATE OR REPLACE FUNCTION client_admit(
    of_tenant integer, body jsonb, at timestamptz, taken bigint) RETURNS account[]
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    due timestamptz := client_payment_due(body, at);
    ahead float8 := client_setting(of_tenant, 'payment.max_delay_seconds')::float8;
    amount bigint := (body ->> 'amount')::bigint;
    until timestamptz := (body ->> 'retry_until')::timestamptz;
    usual bigint := client_setting(of_tenant, 'payment.max_amount')::bigint;
    most bigint;
    payer account;
    payee account;
    field text;
BEGIN
    IF NOT due BETWEEN at + interval '1 s' AND at + make_interval(secs => ahead) THEN
        field := CASE WHEN body ? 'delay_seconds' THEN 'delay_seconds' ELSE 'scheduled_time' END;
    ELSIF until <= due OR until > at + make_interval(secs => ahead) THEN
        field := 'on_insufficient';
    END IF;
    IF field IS NOT NULL THEN
        PERFORM client_refuse_time(of_tenant, at, field);
    END IF;
    payer := client_usable(of_tenant, body ->> 'from_account_id', 'from_account_id');
    payee := client_usable(of_tenant, body ->> 'to_account_id', 'to_account_id');
    IF payer.currency IS DISTINCT FROM payee.currency THEN
        PERFORM client_refuse(422, 'currency_mismatch', format('%s has %s, %s has %s.',
                payer.account_id, coalesce(payer.currency, 'no currency'), payee.account_id,
                coalesce(payee.currency, 'no currency')), 'to_account_id', NULL,
            jsonb_build_object('currencies', jsonb_build_array(payer.currency, payee.currency)));
    END IF;
    most := least(coalesce(payer.max_amount, usual), greatest(usual, CASE
        WHEN payer.max_amount IS NULL THEN usual
        ELSE client_setting(of_tenant, 'payment.account_max_amount')::bigint END));
    IF amount > most THEN
        PERFORM client_refuse(422, 'amount_above_limit', format(
            'The most for one payment from %s is %s.', payer.account_id,
            client_money_text(most, payer.currency)), 'amount', NULL,
            jsonb_build_object('limit', most));
    ELSIF body ->> 'funding' = 'hold'
          AND payer.balance - payer.held - taken - amount < payer.floor THEN
        PERFORM client_refuse(422, 'insufficient_funds', format('%s has %s available.',
                payer.account_id, client_money_text(
                    payer.balance - payer.held - taken - payer.floor, payer.currency)), 'amount',
            'Credit the account, or use funding => ''at_execution''.',
            jsonb_build_object('available', payer.balance - payer.held - taken - payer.floor));
    END IF;
    RETURN ARRAY[payer, payee];
END $$;

-- The payment that a key led to before, if this asks for the same; NULL where the key is new.
CREATE OR REPLACE FUNCTION client_payment_known(asked client_request, own_accounts text[])
    RETURNS uuid
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    staged client_request;
    known idempotency;
    kept jsonb;
    before jsonb;
    after jsonb := asked.body - '{bucket,to_bucket,traceparent}'::text[];
    p payment;
    differs text[];
BEGIN
    SELECT r.* INTO staged FROM client_request r
     WHERE r.transaction = pg_current_xact_id() AND r.kind = 'payment' AND r.key = asked.key;
    IF staged.subject IS NOT NULL THEN
        IF staged.fingerprint <> asked.fingerprint THEN
            PERFORM client_refuse_reused(
                client_differs(staged.body - '{bucket,to_bucket,traceparent}'::text[], after));
        END IF;
        RETURN staged.subject;
    END IF;
    SELECT i.* INTO known FROM idempotency i
     WHERE i.bucket = (get_byte(uuid_send(asked.key), 0) & 63)::smallint AND i.scope = 3
       AND i.tenant_id = asked.tenant_id AND i.key = asked.key;
    IF known.key IS NULL THEN
        RETURN NULL;
    END IF;
    after := (after - 'delay_seconds') || jsonb_build_object('scheduled_time',
        instant_text(client_payment_due(asked.body, known.created_at)));
    IF known.kept IS NULL THEN
        SELECT f.* INTO p FROM payment f WHERE f.bucket = bucket_of(known.subject)
           AND f.tenant_id = asked.tenant_id AND f.payment_id = known.subject;
        before := jsonb_strip_nulls(jsonb_build_object('from_account_id', p.from_account,
            'to_account_id', p.to_account, 'amount', p.amount, 'description', p.description,
            'funding', CASE WHEN p.hold THEN 'hold' ELSE 'at_execution' END,
            'retry_until', instant_text(p.retry_until), 'on_broken', p.on_broken,
            'scheduled_time', instant_text(p.due_at), 'refund_of', p.refund_of));
    ELSE
        kept := convert_from(known.kept, 'UTF8')::jsonb;
        before := (kept -> 'request') - 'delay_seconds' - 'on_insufficient'
            || jsonb_strip_nulls(jsonb_build_object('scheduled_time',
                   instant_text(client_payment_due(kept -> 'request', known.created_at)),
               'retry_until', instant_text(
                   (kept #>> '{request,on_insufficient,retry_until}')::timestamptz)));
    END IF;
    differs := client_differs(before, after);
    IF differs <> '{}' THEN
        -- A role limited to accounts is not told in what it differs from a payment of others.
        PERFORM client_refuse_reused(CASE
            WHEN before ->> 'from_account_id' <> ALL (own_accounts)
             AND before ->> 'to_account_id' <> ALL (own_accounts) THEN '{}' ELSE differs END);
    ELSIF kept IS NOT NULL THEN
        PERFORM client_refuse(422, kept #>> '{answer,code}', kept #>> '{answer,detail}',
            kept #>> '{answer,field}', 'This key was refused before; use a new one.');
    END IF;
    RETURN known.subject;
END $$;

-- Schedule a payment: it is there when this transaction commits, and its amount is held from then
-- on; it was never there if it does not. Takes what POST /payments/schedule takes.
CREATE OR REPLACE FUNCTION schedule_payment(
    from_account_id text, to_account_id text, amount bigint, idempotency_key text,
    delay_seconds bigint DEFAULT NULL, scheduled_time timestamptz DEFAULT NULL,
    description text DEFAULT NULL, funding text DEFAULT 'hold',
    retry_until timestamptz DEFAULT NULL, on_broken text DEFAULT NULL,
    traceparent text DEFAULT NULL) RETURNS uuid LANGUAGE plpgsql VOLATILE
    SECURITY DEFINER SET search_path FROM CURRENT SET client_encoding = 'UTF8'
    SET standard_conforming_strings = on SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
    me client_role := client_identity('payments:write');
    asked client_request;
    parties account[];
    taken bigint;
    found uuid;
BEGIN
    PERFORM client_refuse_halted(me.tenant_id, true);
    PERFORM client_check((SELECT s.schema FROM client_schema s WHERE s.noun = 'payment'),
        jsonb_build_object('from_account_id', from_account_id, 'to_account_id', to_account_id,
            'amount', amount, 'delay_seconds', delay_seconds, 'scheduled_time',
            client_instant(scheduled_time), 'description', description, 'funding', funding,
            'on_broken', on_broken, 'on_insufficient', CASE WHEN retry_until IS NULL THEN '"fail"'
                ELSE jsonb_build_object('retry_until', client_instant(retry_until)) END));
    IF (delay_seconds IS NULL) = (scheduled_time IS NULL) THEN
        PERFORM client_wrong('delay_seconds', 'Give one of delay_seconds and scheduled_time.');
    ELSIF from_account_id = to_account_id THEN
        PERFORM client_refuse(422, 'self_payment', format('%s cannot pay itself.', to_account_id),
                              'to_account_id');
    ELSIF retry_until IS NOT NULL AND funding = 'hold' THEN
        PERFORM client_wrong('on_insufficient', 'A payment with a hold cannot lack money later: '
                             'retry_until needs at_execution.');
    ELSIF idempotency_key IS NULL THEN
        PERFORM client_refuse(400, 'idempotency_key_missing', 'A payment needs a key.',
                              'idempotency_key', 'Give one of your own for each new payment.');
    ELSIF delay_seconds > client_setting(me.tenant_id, 'payment.max_delay_seconds')::bigint THEN
        PERFORM client_refuse_time(me.tenant_id, clock(), 'delay_seconds');
    ELSIF traceparent !~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' THEN
        PERFORM client_wrong('traceparent', 'traceparent is as the W3C writes it.');
    ELSIF from_account_id <> ALL (me.accounts) THEN
        PERFORM client_refuse(403, 'forbidden',
            format('The role may not pay from %s.', from_account_id), 'from_account_id');
    ELSIF amount > me.max_amount THEN
        PERFORM client_refuse(403, 'forbidden',
            format('The role may pay %s at most.', me.max_amount), 'amount');
    END IF;
    PERFORM client_check_key(idempotency_key);
    asked.tenant_id := me.tenant_id;
    asked.body := jsonb_strip_nulls(jsonb_build_object('from_account_id', from_account_id,
        'to_account_id', to_account_id, 'amount', amount, 'delay_seconds', delay_seconds,
        'scheduled_time', instant_text(scheduled_time), 'description', description,
        'funding', funding, 'retry_until', instant_text(retry_until), 'on_broken', on_broken));
    asked.key := client_key(3, me.tenant_id, idempotency_key);
    asked.fingerprint := encode(substring(sha256(convert_to(asked.body::text, 'UTF8')) FOR 16),
                                'hex')::uuid;
    found := client_payment_known(asked, me.accounts);
    IF found IS NOT NULL THEN
        RETURN found;
    END IF;
    -- A hint, so a hundred requests are enough: the commit judges what all of them take.
    SELECT coalesce(sum((r.body ->> 'amount')::bigint), 0) INTO taken
      FROM (SELECT * FROM client_request r WHERE r.transaction = pg_current_xact_id()
             LIMIT 100) AS r
     WHERE r.kind = 'payment' AND r.body ->> 'from_account_id' = from_account_id
       AND r.body ->> 'funding' = 'hold';
    parties := client_admit(me.tenant_id, asked.body, clock(), taken);
    asked.subject := client_new_id(parties[1].bucket,
        substring(sha256(uuid_send(asked.key) || uuid_send(asked.fingerprint)) FOR 8), clock());
    asked.body := asked.body || jsonb_strip_nulls(
        jsonb_build_object('bucket', parties[1].bucket, 'to_bucket', parties[2].bucket,
                           'traceparent', traceparent));
    INSERT INTO client_request (tenant_id, kind, subject, actor, key, fingerprint, body)
    VALUES (me.tenant_id, 'payment', asked.subject, 'role:' || me.role_name, asked.key,
            asked.fingerprint, asked.body);
    RETURN asked.subject;
END $$;

-- Refuse new payments while the database may lose what it has confirmed
-- (database/durability_rule.py).
CREATE OR REPLACE FUNCTION client_refuse_unsafe() RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF client_setting(0, 'payment.unsafe_commits') = '"accept"' THEN
        RETURN;
    END IF;
    IF NOT current_setting('fsync')::boolean OR NOT current_setting('full_page_writes')::boolean
       OR (current_setting('synchronous_standby_names') = '' AND EXISTS (
           SELECT FROM pg_stat_replication r
            WHERE r.state IN ('startup', 'catchup', 'streaming'))) THEN
        PERFORM client_refuse(503, 'commits_not_durable',
            'The database does not keep what it confirms.', NULL,
            'fsync, full_page_writes and synchronous replication, or payment.unsafe_commits.');
    END IF;
END $$;

-- Give back what cancelled payments held, then hold for the new ones: accounts are locked in the
-- one order, and changed last but for the keys.
CREATE OR REPLACE FUNCTION client_accept_payments(mine xid8, of_tenant integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock();
    asked client_request;
    parties account[];
    payer account;
    payers account[] := '{}';
    new payment_columns;
    taken jsonb := '{}';
    above bigint := client_setting(of_tenant, 'payment.approval_above')::bigint;
    seconds float8 := client_setting(of_tenant, 'payment.approval_seconds')::float8;
    waits boolean;
    many bigint;
BEGIN
    PERFORM account_lock(array_agg(bucket), array_agg(of_tenant), array_agg(account_id))
       FROM (SELECT DISTINCT (r.body ->> 'bucket')::smallint AS bucket,
                    coalesce(r.body ->> 'payer', r.body ->> 'from_account_id') COLLATE "C"
                        AS account_id
               FROM client_request r
              WHERE r.transaction = mine
                AND (r.body ? 'released' OR r.body ->> 'funding' = 'hold')
              ORDER BY 1, 2) AS wanted
     HAVING count(*) > 0;
    UPDATE account a SET held = a.held - freed.amount, updated_at = clock()
      FROM (SELECT (r.body ->> 'bucket')::smallint AS bucket, r.body ->> 'payer' AS account_id,
                   sum((r.body ->> 'released')::bigint)::bigint AS amount
              FROM client_request r WHERE r.transaction = mine AND r.body ? 'released'
             GROUP BY 1, 2) AS freed
     WHERE a.bucket = freed.bucket AND a.tenant_id = of_tenant AND a.account_id = freed.account_id;
    SELECT count(*) INTO many FROM client_request r
     WHERE r.transaction = mine AND r.kind = 'payment';
    IF many = 0 THEN
        RETURN;
    END IF;
    PERFORM client_refuse_unsafe();
    PERFORM client_count(of_tenant, 'payments', many);
    FOR asked IN SELECT * FROM client_request r WHERE r.transaction = mine AND r.kind = 'payment'
                  ORDER BY r.number LOOP
        parties := client_admit(of_tenant, asked.body, at, coalesce(
            (taken ->> (asked.body ->> 'from_account_id'))::bigint, 0));
        payer := parties[1];
        IF asked.body ->> 'funding' = 'hold' THEN
            taken := taken || jsonb_build_object(payer.account_id,
                coalesce((taken ->> payer.account_id)::bigint, 0)
                + (asked.body ->> 'amount')::bigint);
            payers := payers || payer;
        END IF;
    END LOOP;
    FOREACH waits IN ARRAY ARRAY[false, true] LOOP
        SELECT array_agg((body ->> 'bucket')::smallint),
               array_agg((body ->> 'to_bucket')::smallint), array_agg(of_tenant),
               array_agg(subject), array_agg(body ->> 'from_account_id'),
               array_agg(body ->> 'to_account_id'), array_agg((body ->> 'amount')::bigint),
               array_agg(client_payment_due(body, at)), array_agg(body ->> 'funding' = 'hold'),
               array_agg((body ->> 'retry_until')::timestamptz), array_agg(body ->> 'description'),
               array_agg(body ->> 'traceparent'), array_agg(body ->> 'on_broken'),
               array_agg(actor), array_agg(key)
          INTO new.bucket, new.to_bucket, new.tenant_id, new.payment_id, new.from_account,
               new.to_account, new.amount, new.due_at, new.hold, new.retry_until, new.description,
               new.traceparent, new.on_broken, new.actor, new.idempotency_key
          FROM (SELECT * FROM client_request r WHERE r.transaction = mine AND r.kind = 'payment'
                   AND (above > 0 AND (r.body ->> 'amount')::bigint > above) = waits
                 ORDER BY r.number) AS asked;
        IF new.payment_id IS NOT NULL THEN
            PERFORM payment_insert(new, CASE WHEN waits THEN 3 ELSE 0 END);
        END IF;
    END LOOP;
    FOR asked IN SELECT * FROM client_request r WHERE r.transaction = mine AND r.kind = 'payment'
                    AND above > 0 AND (r.body ->> 'amount')::bigint > above LOOP
        INSERT INTO payment_approval (bucket, tenant_id, payment_id, requested_by,
                                      requested_persons, expires_at)
        VALUES (bucket_of(asked.subject), of_tenant, asked.subject, asked.actor,
                ARRAY[asked.actor], clock() + make_interval(secs => seconds));
        PERFORM client_event(of_tenant, asked.subject, 'payment.approval_requested', asked.actor,
                             NULL, true);
    END LOOP;
    PERFORM account_hold(array_agg(bucket), array_agg(of_tenant), array_agg(account_id),
                         array_agg((taken ->> account_id)::bigint), array_agg(floor),
                         array_agg(max_amount))
       FROM (SELECT DISTINCT p.bucket, p.account_id, p.floor, p.max_amount
               FROM unnest(payers) AS p ORDER BY p.bucket, p.account_id) AS held
     HAVING count(*) > 0;
END $$;

REVOKE EXECUTE ON FUNCTION client_account, client_usable, client_payment_due, client_refuse_time,
    client_money_text, client_admit, client_payment_known, schedule_payment, client_refuse_unsafe,
    client_accept_payments FROM PUBLIC;
GRANT EXECUTE ON FUNCTION schedule_payment TO postdate_client;
