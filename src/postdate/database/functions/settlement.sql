-- Settling: what is due is locked and loaded with one call.

-- Lock due payments' timers bucket by bucket, then load what they ask for, all at once: a plan over
-- the weeks of payments is long, and is not begun anew for each bucket; and weeks outside of the
-- ids' range are not even begun: with a year of weeks, that took longer than to lock and load one
-- payment. Says which may not be settled because their tenant is halted: the lock of halts comes
-- first. The arguments come sorted by bucket. What another transaction has locked (a settler, a
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

-- Add up amounts as they are stored: the sum of bigint that comes with PostgreSQL is a numeric.
CREATE OR REPLACE AGGREGATE amount_sum(bigint) (sfunc = int8pl, stype = bigint, initcond = '0',
                                                combinefunc = int8pl, parallel = safe);

-- Take payments that hold their amounts off the queue: lock their timers, load what they ask for,
-- delete the timers, and add up by account what they change, all that needs no account. `even` is
-- false, and nothing but locks was taken, where one of them needs a decision: it holds nothing, its
-- payment is gone, or its tenant stands still. Then settlement_lock takes them. For a plain
-- PostgreSQL: a sharded one settles by settlement_lock alone.
--
-- The columns are in the order of settling. A cursor keeps them for settlement_pay, with the legs
-- and the accounts, so that they do not travel to the node and back while the batch before ends. Of
-- the legs, payers come first, then payees, each in that order: the number of the leg's account,
-- and what that has gained, and how many legs it has had, up to there. Accounts are in the one
-- order of locking. The planner takes an array for ten rows and is told to look up by key.
CREATE OR REPLACE FUNCTION settlement_take(
    lane integer, buckets smallint[], subjects uuid[],
    OUT even boolean, OUT at timestamptz, OUT tenants integer[], OUT ids uuid[],
    OUT tokens integer[], OUT due_seconds float8[], OUT amounts bigint[], OUT payers text[],
    OUT payees text[], OUT payee_buckets smallint[], OUT traces text[])
    LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_seqscan = off SET enable_bitmapscan = off
    SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    still integer[];
    least_id uuid := (SELECT id FROM unnest(subjects) AS id ORDER BY id LIMIT 1);
    last_id uuid := (SELECT id FROM unnest(subjects) AS id ORDER BY id DESC LIMIT 1);
    places tid[];
    payer_buckets smallint[];
    many integer;
    deleted integer;
    leg_accounts integer[];
    leg_sums bigint[];
    leg_counts bigint[];
    account_buckets smallint[];
    account_tenants integer[];
    account_ids text[];
    balances bigint[];
    helds bigint[];
    versions bigint[];
    held_payments CONSTANT refcursor := 'held_payments';
BEGIN
    PERFORM halt_share();
    still := (SELECT tenants_held());
    at := clock();
    SELECT coalesce(bool_and(coalesce(l.hold, false) AND l.tenant_id <> ALL (still)), true),
           count(*), array_agg(l.place), array_agg(l.bucket), array_agg(l.tenant_id),
           array_agg(l.subject), array_agg(l.token),
           array_agg(date_part('epoch', l.due_at - '2100-01-01 00:00:00Z'::timestamptz)),
           array_agg(l.amount), array_agg(l.from_account), array_agg(l.to_account),
           array_agg(l.to_bucket), array_agg(l.traceparent)
      INTO even, many, places, payer_buckets, tenants, ids, tokens, due_seconds, amounts, payers,
           payees, payee_buckets, traces
      FROM (SELECT * FROM (
                SELECT t.ctid AS place, t.bucket, t.tenant_id, t.subject, t.due_at,
                       t.token::integer AS token, p.amount, p.hold, p.from_account, p.to_account,
                       p.to_bucket, p.traceparent
                  FROM (SELECT unnest(buckets) AS bucket, unnest(subjects) AS subject) AS wanted
                  JOIN timer t ON t.bucket = wanted.bucket AND t.subject = wanted.subject
                  LEFT JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id
                   AND p.payment_id = t.subject AND p.payment_id BETWEEN least_id AND last_id
                 WHERE t.lane_id = lane AND t.due_at <= clock()
                   FOR UPDATE OF t SKIP LOCKED) AS locked
             ORDER BY due_at, subject) AS l;
    IF many = 0 OR NOT even THEN
        RETURN;
    END IF;
    DELETE FROM timer t WHERE t.ctid = ANY (places);
    GET DIAGNOSTICS deleted = ROW_COUNT;
    IF deleted <> many THEN
        RAISE EXCEPTION '% locked timers, but % deleted', many, deleted;
    END IF;
    WITH leg AS MATERIALIZED (
        SELECT leg, bucket, tenant_id, account_id, amount, held,
               dense_rank() OVER (ORDER BY bucket, tenant_id, account_id COLLATE "C")::integer
                   AS account,
               amount_sum(amount) OVER mine AS sum, row_number() OVER mine AS count
          FROM (SELECT n AS leg, n AS n, bucket, tenant_id, account_id, -amount AS amount,
                       -amount AS held
                  FROM (SELECT generate_subscripts(ids, 1) AS n, unnest(payer_buckets) AS bucket,
                               unnest(tenants) AS tenant_id, unnest(payers) AS account_id,
                               unnest(amounts) AS amount) AS debit
                 UNION ALL
                SELECT many + n, n, bucket, tenant_id, account_id, amount, 0
                  FROM (SELECT generate_subscripts(ids, 1) AS n, unnest(payee_buckets) AS bucket,
                               unnest(tenants) AS tenant_id, unnest(payees) AS account_id,
                               unnest(amounts) AS amount) AS credit) AS legs
        WINDOW mine AS (PARTITION BY bucket, tenant_id, account_id COLLATE "C" ORDER BY n
                        ROWS UNBOUNDED PRECEDING))
    SELECT l.*, a.* INTO leg_accounts, leg_sums, leg_counts, account_buckets, account_tenants,
           account_ids, balances, helds, versions
      FROM (SELECT array_agg(account), array_agg(sum), array_agg(count)
              FROM (SELECT account, sum, count FROM leg ORDER BY leg) AS legs) AS l,
           (SELECT array_agg(bucket), array_agg(tenant_id), array_agg(account_id),
                   array_agg(balance), array_agg(held), array_agg(version)
              FROM (SELECT min(bucket) AS bucket, min(tenant_id) AS tenant_id,
                           min(account_id COLLATE "C") AS account_id,
                           amount_sum(amount) AS balance, amount_sum(held) AS held,
                           count(*) AS version
                      FROM leg GROUP BY account ORDER BY account) AS summed) AS a;
    OPEN held_payments NO SCROLL FOR
        SELECT at AS at, tenants AS tenants, ids AS ids, tokens AS tokens,
               due_seconds AS due_seconds, amounts AS amounts, payers AS payers, payees AS payees,
               leg_accounts AS leg_accounts, leg_sums AS leg_sums, leg_counts AS leg_counts,
               account_buckets AS account_buckets, account_tenants AS account_tenants,
               account_ids AS account_ids, balances AS balances, helds AS helds,
               versions AS versions;
END $$;

-- Pay what settlement_take has taken in this transaction: change the accounts, which locks them,
-- then write transfers and outcomes. False where an account is missing, frozen, closed or would be
-- too full: roll back, and decide one by one. Which account a row of the update is follows from the
-- order in which account_add visits them; that is compared.
CREATE OR REPLACE FUNCTION settlement_pay(transfers uuid[], max_balance bigint, actor text)
    RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    held_payments CONSTANT refcursor := 'held_payments';
    held record;
    many integer := cardinality(transfers);
    was record;
    debit record;
    credit record;
BEGIN
    FETCH held_payments INTO held;
    CLOSE held_payments;
    SELECT array_agg(a.balance) AS balances, array_agg(a.version) AS versions,
           bool_and(a.frozen_at IS NULL AND a.closed_at IS NULL)
           AND array_agg(a.bucket) = held.account_buckets
           AND array_agg(a.tenant_id) = held.account_tenants
           AND array_agg(a.account_id) = held.account_ids AS even
      INTO was
      FROM account_add(held.account_buckets, held.account_tenants, held.account_ids,
                       held.balances, held.helds, held.versions) AS a;
    IF was.even IS NOT TRUE THEN
        RETURN false;
    END IF;
    SELECT array_agg(was.balances[leg.account] + leg.sum) AS balances,
           array_agg(was.versions[leg.account] + leg.count) AS versions
      INTO debit
      FROM (SELECT unnest(held.leg_accounts[:many]) AS account,
                   unnest(held.leg_sums[:many]) AS sum,
                   unnest(held.leg_counts[:many]) AS count) AS leg;
    SELECT array_agg(was.balances[leg.account] + leg.sum) AS balances,
           array_agg(was.versions[leg.account] + leg.count) AS versions,
           max(was.balances[leg.account] + leg.sum) AS fullest
      INTO credit
      FROM (SELECT unnest(held.leg_accounts[many + 1:]) AS account,
                   unnest(held.leg_sums[many + 1:]) AS sum,
                   unnest(held.leg_counts[many + 1:]) AS count) AS leg;
    IF credit.fullest > max_balance THEN
        RETURN false;
    END IF;
    PERFORM payment_settle(held.tenants, held.ids, held.tokens, held.due_seconds, transfers,
                           held.amounts, held.payers, debit.balances, debit.versions, held.payees,
                           credit.balances, credit.versions, held.at, NULL, actor);
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION settlement_lock, settlement_take, settlement_pay FROM PUBLIC;
GRANT EXECUTE ON FUNCTION settlement_lock, settlement_take, settlement_pay TO postdate_writer;
