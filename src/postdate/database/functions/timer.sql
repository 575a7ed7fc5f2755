-- Timers: the token that fences a claim, and the lanes of the system.

-- What a lane of the system is for. A tenant in test mode has lanes of its own, below zero, where
-- only its test clock reads (core/test_clock.py says how they are counted).
CREATE OR REPLACE FUNCTION lane_purpose(lane_id integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT CASE WHEN lane_id < 0 THEN -lane_id % 16 ELSE lane_id END';

-- The token of a claim: when it was made, in milliseconds since 2020, then 12 random bits. So it
-- differs from that of every other claim and is higher than all before it, even where a commit was
-- lost and its number comes again; and it stays below 2^53, which every JSON reader can hold.
CREATE OR REPLACE FUNCTION claim_token(random_bits integer) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT (date_part('epoch', clock()) * 1000 - 1577836800000)::bigint * 4096 + random_bits$$;

-- The first timer of each place (a bucket and, beside it, a lane), not before a low-water mark. The
-- planner inlines this function.
CREATE OR REPLACE FUNCTION timer_first(buckets smallint[], lanes integer[], lows timestamptz[])
    RETURNS TABLE (bucket smallint, lane_id integer, due_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT wanted.bucket, wanted.lane_id, head.due_at
      FROM unnest(buckets, lanes, lows) AS wanted (bucket, lane_id, low)
     CROSS JOIN LATERAL (
           SELECT t.due_at FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id
              AND t.due_at >= wanted.low
            ORDER BY t.due_at LIMIT 1) AS head
$$;

-- The lanes that have timers, with the first timer of each: in a bucket, after one lane and before
-- another, at most `max_count` of each such gap. It goes from one lane that has timers to the next,
-- so that lanes without any cost nothing.
CREATE OR REPLACE FUNCTION timer_lanes(
    buckets smallint[], afters integer[], befores integer[], max_count integer)
    RETURNS TABLE (bucket smallint, lane_id integer, due_at timestamptz)
    LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found (bucket, before, lane_id, due_at, number) AS (
        SELECT gap.bucket, gap.before, head.lane_id, head.due_at, 1
          FROM unnest(buckets, afters, befores) AS gap (bucket, after, before)
         CROSS JOIN LATERAL (
               SELECT t.lane_id, t.due_at FROM timer t
                WHERE t.bucket = gap.bucket AND t.lane_id > gap.after AND t.lane_id < gap.before
                ORDER BY t.lane_id, t.due_at LIMIT 1) AS head
        UNION ALL
        SELECT last.bucket, last.before, head.lane_id, head.due_at, last.number + 1
          FROM found last
         CROSS JOIN LATERAL (
               SELECT t.lane_id, t.due_at FROM timer t
                WHERE t.bucket = last.bucket AND t.lane_id > last.lane_id
                  AND t.lane_id < last.before
                ORDER BY t.lane_id, t.due_at LIMIT 1) AS head
         WHERE last.number < max_count)
    SELECT found.bucket, found.lane_id, found.due_at FROM found
$$;

-- Walk the timers of each place in their order: after an instant (one for each place, or one for
-- all) and a subject, up to an instant, of one tenant or (NULL) of all, at most `max_count` of
-- each. The planner inlines this function. CASE, not COALESCE: see clock().
CREATE OR REPLACE FUNCTION timer_walk(
    buckets smallint[], lanes integer[], lows timestamptz[], after uuid, until_at timestamptz,
    of_tenant integer, max_count integer)
    RETURNS TABLE (place bigint, bucket smallint, lane_id integer, tenant_id integer, subject uuid,
                   token bigint, due_at timestamptz, claimed_at timestamptz, claimed_by uuid)
    LANGUAGE sql STABLE AS $$
    SELECT wanted.place, wanted.bucket, wanted.lane_id, head.tenant_id, head.subject, head.token,
           head.due_at, head.claimed_at, head.claimed_by
      FROM unnest(buckets, lanes, lows) WITH ORDINALITY AS wanted (bucket, lane_id, low, place)
     CROSS JOIN LATERAL (
           SELECT t.tenant_id, t.subject, t.token, t.due_at, t.claimed_at, t.claimed_by
             FROM timer t
            WHERE t.bucket = wanted.bucket AND t.lane_id = wanted.lane_id
              AND (t.due_at, t.subject)
                  > (CASE WHEN wanted.low IS NULL THEN lows[1] ELSE wanted.low END, after)
              AND t.due_at <= until_at AND (of_tenant IS NULL OR t.tenant_id = of_tenant)
            ORDER BY t.due_at, t.subject LIMIT max_count) AS head
$$;
