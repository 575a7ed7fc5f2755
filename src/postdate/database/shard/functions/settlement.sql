-- Due payments, as Citus can find them: what differs by bucket is read from arrays by the bucket.

CREATE OR REPLACE FUNCTION settlement_due(
    buckets smallint[], lows timestamptz[], graces float8[], lane integer, depth integer,
    without uuid[])
    RETURNS TABLE (due_at timestamptz, subject uuid, bucket smallint)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    low_of timestamptz[] := array_fill(NULL::timestamptz, ARRAY[64]);
    grace_of float8[] := array_fill(NULL::float8, ARRAY[64]);
BEGIN
    FOR place IN 1 .. cardinality(buckets) LOOP
        low_of[buckets[place] + 1] := lows[place];
        grace_of[buckets[place] + 1] := graces[place];
    END LOOP;
    RETURN QUERY
    SELECT found.due_at, found.subject, place.bucket
      FROM outbox_lock place
     CROSS JOIN LATERAL (
           SELECT t.due_at, t.subject FROM timer t
            WHERE t.bucket = place.bucket AND t.lane_id = lane
              AND t.due_at >= low_of[place.bucket + 1]
              AND t.due_at <= clock() - make_interval(secs => grace_of[place.bucket + 1])
              AND t.subject <> ALL (without)
            ORDER BY t.due_at, t.subject LIMIT depth) AS found
     WHERE place.bucket = ANY (buckets);
END $$;

-- Lock and load, one bucket and one table at a time: what names a shard by one value and joins
-- nothing is the only kind of statement that Citus plans once for all calls.
CREATE OR REPLACE FUNCTION settlement_lock(lane integer, buckets smallint[], subjects uuid[])
    RETURNS TABLE (bucket smallint, tenant_id integer, subject uuid, due_at timestamptz,
                   token integer, from_account text, to_account text, amount bigint, hold boolean,
                   retry_until timestamptz, traceparent text, held boolean, at timestamptz)
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    still integer[];
    first integer := 1;
    last integer;
    place smallint;
    wanted uuid[];
    one record;
    owners integer[];
    locked uuid[];
    asked record;
    places smallint[] := '{}';
    tenants integer[] := '{}';
    ids uuid[] := '{}';
    dues timestamptz[] := '{}';
    tokens integer[] := '{}';
    paid_tenants integer[] := '{}';
    paid_ids uuid[] := '{}';
    payers text[] := '{}';
    payees text[] := '{}';
    amounts bigint[] := '{}';
    holds boolean[] := '{}';
    retries timestamptz[] := '{}';
    traces text[] := '{}';
    least_id uuid := (SELECT id FROM unnest(subjects) AS id ORDER BY id LIMIT 1);
    last_id uuid := (SELECT id FROM unnest(subjects) AS id ORDER BY id DESC LIMIT 1);
BEGIN
    PERFORM halt_share();
    still := (SELECT tenants_held());
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        place := buckets[first];
        wanted := subjects[first:last];
        owners := '{}';
        locked := '{}';
        FOR one IN
            SELECT t.tenant_id, t.subject, t.due_at, t.token::integer AS token FROM timer t
             WHERE t.bucket = place AND t.subject = ANY (wanted) AND t.lane_id = lane
               AND t.due_at <= clock()
               FOR UPDATE SKIP LOCKED LOOP
            places := places || place;
            owners := owners || one.tenant_id;
            locked := locked || one.subject;
            dues := dues || one.due_at;
            tokens := tokens || one.token;
        END LOOP;
        tenants := tenants || owners;
        ids := ids || locked;
        SELECT array_agg(p.tenant_id) AS tenants, array_agg(p.payment_id) AS ids,
               array_agg(p.from_account) AS payers, array_agg(p.to_account) AS payees,
               array_agg(p.amount) AS amounts, array_agg(p.hold) AS holds,
               array_agg(p.retry_until) AS retries, array_agg(p.traceparent) AS traces
          INTO asked
          FROM payment p
         WHERE p.bucket = place AND p.tenant_id = ANY (owners) AND p.payment_id = ANY (locked)
           AND p.payment_id BETWEEN least_id AND last_id;
        paid_tenants := paid_tenants || asked.tenants;
        paid_ids := paid_ids || asked.ids;
        payers := payers || asked.payers;
        payees := payees || asked.payees;
        amounts := amounts || asked.amounts;
        holds := holds || asked.holds;
        retries := retries || asked.retries;
        traces := traces || asked.traces;
        first := last + 1;
    END LOOP;
    RETURN QUERY SELECT l.bucket, l.tenant_id, l.subject, l.due_at, l.token, p.from_account,
            p.to_account, p.amount, p.hold, p.retry_until, p.traceparent,
            l.tenant_id = ANY (still), NULL::timestamptz
        FROM unnest(places, tenants, ids, dues, tokens)
             AS l (bucket, tenant_id, subject, due_at, token)
        LEFT JOIN unnest(paid_tenants, paid_ids, payers, payees, amounts, holds, retries, traces)
             AS p (tenant_id, payment_id, from_account, to_account, amount, hold, retry_until,
                   traceparent)
             ON p.tenant_id = l.tenant_id AND p.payment_id = l.subject;
    at := clock();
    RETURN NEXT;
END $$;
