-- Settling: what is due is locked and loaded with one call.

-- Lock due payments' timers bucket by bucket, then load what they ask for, all at once: a plan
-- over the weeks of payments is long, and is not begun anew for each bucket; and weeks outside of
-- the ids' range are not even begun: with a year of weeks, that took longer than to lock and load
-- one payment. Says which may not be settled because their tenant stands still: the lock of halts
-- comes first. The arguments come sorted by bucket. What somebody else holds (another settler, a
-- cancel) is skipped: none waits for a timer. A timer without its payment gives nulls, never
-- nothing: it must not be overlooked. The last row has the time and nothing else.
CREATE OR REPLACE FUNCTION settlement_lock(lane integer, buckets smallint[], subjects uuid[])
    RETURNS TABLE (bucket smallint, tenant_id integer, subject uuid, due_at timestamptz,
                   token integer, from_account text, to_account text, amount bigint, hold boolean,
                   retry_until timestamptz, traceparent text, held boolean, at timestamptz)
    LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off
    SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    still integer[];
    first integer := 1;
    last integer;
    mine record;
    places smallint[] := '{}';
    tenants integer[] := '{}';
    ids uuid[] := '{}';
    dues timestamptz[] := '{}';
    tokens integer[] := '{}';
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
        SELECT array_agg(l.bucket) AS places, array_agg(l.tenant_id) AS tenants,
               array_agg(l.subject) AS ids, array_agg(l.due_at) AS dues,
               array_agg(l.token) AS tokens
          INTO mine
          FROM (SELECT t.bucket, t.tenant_id, t.subject, t.due_at, t.token::integer
                  FROM unnest(subjects[first:last]) AS wanted (subject)
                  JOIN timer t ON t.bucket = buckets[first] AND t.subject = wanted.subject
                 WHERE t.lane_id = lane AND t.due_at <= clock()
                   FOR UPDATE OF t SKIP LOCKED) AS l;
        places := places || mine.places;
        tenants := tenants || mine.tenants;
        ids := ids || mine.ids;
        dues := dues || mine.dues;
        tokens := tokens || mine.tokens;
        first := last + 1;
    END LOOP;
    RETURN QUERY SELECT l.bucket, l.tenant_id, l.subject, l.due_at, l.token, p.from_account,
            p.to_account, p.amount, p.hold, p.retry_until, p.traceparent,
            l.tenant_id = ANY (still), NULL::timestamptz
        FROM unnest(places, tenants, ids, dues, tokens)
             AS l (bucket, tenant_id, subject, due_at, token)
        LEFT JOIN payment p ON p.bucket = l.bucket AND p.tenant_id = l.tenant_id
         AND p.payment_id = l.subject AND p.payment_id BETWEEN least_id AND last_id;
    at := clock();
    RETURN NEXT;
END $$;

-- The first due timers of each bucket, unlocked; see settlement_peek. The planner inlines this
-- function.
CREATE OR REPLACE FUNCTION settlement_due(
    buckets smallint[], lows timestamptz[], graces float8[], lane integer, depth integer,
    without uuid[])
    RETURNS TABLE (due_at timestamptz, subject uuid, bucket smallint) LANGUAGE sql STABLE AS $$
    SELECT found.due_at, found.subject, wanted.bucket
      FROM unnest(buckets, lows, graces) AS wanted (bucket, low, grace)
     CROSS JOIN LATERAL (
           SELECT t.due_at, t.subject FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = lane AND t.due_at >= wanted.low
              AND t.due_at <= clock() - make_interval(secs => wanted.grace)
              AND t.subject NOT IN (SELECT unnest(without))
            ORDER BY t.due_at, t.subject LIMIT depth) AS found
$$;

REVOKE EXECUTE ON FUNCTION settlement_lock FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settlement_lock TO postdate_writer;
