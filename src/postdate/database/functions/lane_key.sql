-- Limits for each key of a lane: who decides, and what may start. All jobs of a key lie in one
-- bucket, so that each of these functions asks one bucket only.

-- The number of a key in its lane, as `key_id` in lane/spec.py counts it.
CREATE OR REPLACE FUNCTION lane_key_id(of_tenant integer, lane text, key text) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT ('x' || encode(substring(sha256(convert_to(of_tenant || '/' || lane || '/' || key,
                                                      'UTF8')) FOR 8), 'hex'))::bit(64)::bigint
$$;

-- Lock the keys of a lane in a bucket until the commit; false where another claim has them. It
-- does not wait, so that claims of several buckets cannot lock each other out.
CREATE OR REPLACE FUNCTION lane_bucket_lock(of_bucket smallint, of_tenant integer, of_lane text)
    RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    FOR turn IN 1..2 LOOP
        PERFORM FROM lane_bucket b
          WHERE b.bucket = of_bucket AND b.tenant_id = of_tenant AND b.lane = of_lane
            FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            RETURN true;
        ELSIF EXISTS (SELECT FROM lane_bucket b WHERE b.bucket = of_bucket
                         AND b.tenant_id = of_tenant AND b.lane = of_lane) THEN
            RETURN false;
        END IF;
        INSERT INTO lane_bucket VALUES (of_bucket, of_tenant, of_lane) ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN false;
END $$;

-- How many starts a key has left now, where `full_at` is when it has its whole burst again.
CREATE OR REPLACE FUNCTION lane_key_starts(
    full_at timestamptz, now timestamptz, rate float8, burst float8) RETURNS float8
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT burst - least(burst, greatest(0, coalesce(extract(epoch FROM full_at - now)::float8, 0)
                                            * rate)) + 1e-6
$$;

-- Choose what a claim takes of some keys of a lane's bucket, in the order given, and say what the
-- rest of each key waits for. No row at all: another claim has the lock. The lock comes first, then
-- limit and count: only then do they show what the claim before this one has committed.
--
-- Slots are the claimed timers of a key. A lease that ran out keeps its slot until it is taken over
-- here, because its holder may still renew it. Where more are claimed than a lower limit allows,
-- leases that ran out are given back (`surplus`): claimed anew, and never run (tests/spin/key.pml).
--
-- The row comparisons begin with the key, so that only the index of keys has their order: by the
-- one of due instants a key would walk past the backlogs of others.
CREATE OR REPLACE FUNCTION lane_key_choose(
    of_bucket smallint, of_lane integer, keys bigint[], quotas integer[], low_dues timestamptz[],
    low_subjects uuid[], low_tokens bigint[], seek_lost boolean[])
    RETURNS TABLE (key_id bigint, lost uuid[], fresh uuid[], surplus uuid[], first_token bigint,
                   more boolean, at_limit boolean, wait_seconds float8, counted boolean)
    LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    whose record;
    limits jsonb;
    max_running integer;
    rate float8;
    burst float8;
    now timestamptz := clock();
BEGIN
    SELECT l.tenant_id, l.name INTO whose FROM lane l WHERE l.lane_id = of_lane;
    IF NOT lane_bucket_lock(of_bucket, whose.tenant_id, whose.name) THEN
        RETURN;
    END IF;
    SELECT l.per_key INTO limits FROM lane l WHERE l.lane_id = of_lane;
    max_running := (limits ->> 'max_running')::integer;
    rate := (limits ->> 'rate_per_second')::float8;
    burst := coalesce((limits ->> 'rate_burst')::float8, 1);
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT w.*, c.claimed, c.lost, c.first_token,
               CASE WHEN rate IS NULL THEN w.quota
                    ELSE lane_key_starts(k.full_at, now, rate, burst) END AS starts
          FROM unnest(keys, quotas, low_dues, low_subjects, low_tokens, seek_lost)
               WITH ORDINALITY
               AS w (key_id, quota, low_due, low_subject, low_token, seeks, turn)
         CROSS JOIN LATERAL (
               SELECT count(*)::integer AS claimed, min(t.token) AS first_token,
                      coalesce(array_agg(t.subject) FILTER (
                          WHERE t.due_at <= now AND t.lane_id = of_lane), '{}') AS lost
                 FROM timer t
                WHERE t.bucket = of_bucket AND t.key_id = w.key_id AND t.claimed_at IS NOT NULL
                  AND t.token >= w.low_token AND (max_running IS NOT NULL OR w.seeks)) AS c
          LEFT JOIN lane_key k
                 ON rate IS NOT NULL AND k.bucket = of_bucket AND k.key_id = w.key_id),
    sized AS MATERIALIZED (
        SELECT h.*, coalesce(h.claimed > max_running, false) AS is_over,
               CASE WHEN coalesce(h.claimed <= max_running, true)
                    THEN least(cardinality(h.lost), h.quota, floor(h.starts)::integer)
                    WHEN cardinality(h.lost) > h.quota THEN 0
                    ELSE greatest(0, least(max_running - h.claimed + cardinality(h.lost),
                                           floor(h.starts)::integer)) END AS again
          FROM held h),
    chosen AS MATERIALIZED (
        SELECT s.*, CASE WHEN s.is_over THEN 0
                         ELSE greatest(0, least(s.quota - s.again,
                                                floor(s.starts)::integer - s.again,
                                                max_running - s.claimed)) END AS room,
               CASE WHEN s.is_over THEN least(cardinality(s.lost), s.quota) - s.again
                    ELSE 0 END AS back
          FROM sized s)
    SELECT c.key_id, c.lost[:c.again], f.found[:c.room], c.lost[c.again + 1:c.again + c.back],
           c.first_token,
           cardinality(f.found) > c.room OR cardinality(c.lost) > c.again,
           coalesce(c.claimed + c.room >= max_running, false),
           CASE WHEN rate IS NOT NULL AND c.starts - c.again - c.room < 1
                THEN (1 - (c.starts - c.again - c.room)) / rate END,
           max_running IS NOT NULL OR c.seeks
      FROM chosen c
     CROSS JOIN LATERAL (
           SELECT coalesce(array_agg(n.subject), '{}') AS found
             FROM (SELECT t.subject FROM timer t
                    WHERE t.bucket = of_bucket AND t.lane_id = of_lane AND t.claimed_at IS NULL
                      AND t.key_id IS NOT NULL
                      AND (t.key_id, t.due_at, t.subject) >= (c.key_id, c.low_due, c.low_subject)
                      AND (t.key_id, t.due_at) <= (c.key_id, now)
                    ORDER BY t.key_id, t.due_at, t.subject LIMIT c.room + 1) AS n) AS f
     ORDER BY c.turn;
END $$;

-- Count starts against the rate of their keys, or (below zero) give back starts that never were.
-- The caller has the lock. A key whose whole burst is far away, because its rate was lower
-- before, is at most one burst away.
CREATE OR REPLACE FUNCTION lane_key_spend(
    of_bucket smallint, of_lane integer, keys bigint[], counts integer[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    limits jsonb;
    rate float8;
    now timestamptz := clock();
    last timestamptz;
BEGIN
    SELECT l.per_key INTO limits FROM lane l WHERE l.lane_id = of_lane;
    rate := (limits ->> 'rate_per_second')::float8;
    IF rate IS NULL THEN
        RETURN;
    END IF;
    last := now + make_interval(secs => coalesce((limits ->> 'rate_burst')::float8, 1) / rate);
    INSERT INTO lane_key AS k (bucket, key_id, full_at)
    SELECT of_bucket, started.key_id, now + make_interval(secs => started.count / rate)
      FROM unnest(keys, counts) AS started (key_id, count) ORDER BY started.key_id
    ON CONFLICT (bucket, key_id) DO UPDATE
       SET full_at = least(greatest(k.full_at, now), last) + (excluded.full_at - now);
END $$;

-- What keeps a due job from starting, and how many jobs of its key are before it, counted so far.
-- Tenants have no right to the rates of keys; the job that is asked for is their own.
CREATE OR REPLACE FUNCTION lane_key_waits(
    of_tenant integer, of_bucket smallint, id uuid, max_count integer)
    RETURNS TABLE (at_limit boolean, at_rate boolean, before integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT count(*) FROM timer c
                      WHERE c.bucket = of_bucket AND c.key_id = t.key_id
                        AND c.claimed_at IS NOT NULL)
                    >= (l.per_key ->> 'max_running')::integer, false),
           coalesce(lane_key_starts(
               (SELECT k.full_at FROM lane_key k
                 WHERE k.bucket = of_bucket AND k.key_id = t.key_id), clock(),
               (l.per_key ->> 'rate_per_second')::float8,
               coalesce((l.per_key ->> 'rate_burst')::float8, 1)) < 1, false),
           (SELECT count(*)::integer FROM (
                SELECT FROM timer b
                 WHERE b.bucket = of_bucket AND b.lane_id = t.lane_id AND b.claimed_at IS NULL
                   AND b.key_id IS NOT NULL
                   AND (b.key_id, b.due_at, b.subject) >= (t.key_id, '-infinity'::timestamptz,
                                                           '00000000-0000-0000-0000-000000000000')
                   AND (b.key_id, b.due_at, b.subject) < (t.key_id, t.due_at, t.subject)
                 ORDER BY b.key_id, b.due_at, b.subject LIMIT max_count) AS waiting)
      FROM timer t JOIN lane l ON l.lane_id = t.lane_id
     WHERE t.bucket = of_bucket AND t.subject = id AND t.tenant_id = of_tenant
       AND t.key_id IS NOT NULL AND t.claimed_at IS NULL AND l.per_key IS NOT NULL
$$;

REVOKE EXECUTE ON FUNCTION lane_key_id, lane_bucket_lock, lane_key_starts, lane_key_choose,
    lane_key_spend, lane_key_waits FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lane_key_id, lane_key_choose, lane_key_spend, lane_key_starts,
    lane_bucket_lock TO postdate_writer;
GRANT EXECUTE ON FUNCTION lane_key_waits TO postdate_reader, postdate_writer;
