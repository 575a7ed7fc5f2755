-- Timers: the token that fences a claim.

-- The token of a claim: when it was made, in milliseconds since 2020, then 12 random bits. So it
-- differs from that of every other claim and is higher than all before it, even where a commit was
-- lost and its number comes again; and it stays below 2^53, which every JSON reader can hold.
CREATE OR REPLACE FUNCTION claim_token(random_bits integer) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT (date_part('epoch', clock()) * 1000 - 1577836800000)::bigint * 4096 + random_bits$$;
