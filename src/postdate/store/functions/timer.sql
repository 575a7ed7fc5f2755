-- Timers: the token that fences a claim, and the lanes of the system.

-- What a lane of the system is for. A tenant in test mode has lanes of its own, below zero, where
-- nobody looks but its test clock (model/tenant/test_clock.py says how they are counted).
CREATE OR REPLACE FUNCTION lane_purpose(lane_id integer) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    'SELECT CASE WHEN lane_id < 0 THEN -lane_id % 16 ELSE lane_id END';

-- The token of a claim: when it was made, in milliseconds since 2020, then 12 random bits. So it
-- differs from that of every other claim and is higher than all before it, even where a commit was
-- lost and its number comes again; and it stays below 2^53, which every JSON reader can hold.
CREATE OR REPLACE FUNCTION claim_token(random_bits integer) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT (date_part('epoch', clock()) * 1000 - 1577836800000)::bigint * 4096 + random_bits$$;
