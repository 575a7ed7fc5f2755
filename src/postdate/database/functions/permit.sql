-- Permits: the lock of a scope.

-- Refill the tokens by what has passed since, hold the row until the commit, and give the tokens; a
-- scope that is new begins with its burst. Nodes lock it for milliseconds. A longer lock
-- must not stop them: they go on with the jobs of others and come back.
CREATE OR REPLACE FUNCTION permit_lock(in_bucket smallint, in_scope text, rate float8, burst float8)
    RETURNS float8 LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT
    SET lock_timeout = '200ms' AS $$
DECLARE
    found_tokens float8;
BEGIN
    LOOP
        UPDATE permit_scope
           SET tokens = least(burst, tokens + rate * greatest(0, extract(epoch FROM
                        clock() - refilled_at))), refilled_at = clock()
         WHERE bucket = in_bucket AND scope = in_scope
        RETURNING tokens INTO found_tokens;
        IF FOUND THEN
            RETURN found_tokens;
        END IF;
        INSERT INTO permit_scope (bucket, scope, tokens) VALUES (in_bucket, in_scope, burst)
        ON CONFLICT (bucket, scope) DO NOTHING;
    END LOOP;
END $$;

REVOKE EXECUTE ON FUNCTION permit_lock FROM PUBLIC;
GRANT EXECUTE ON FUNCTION permit_lock TO postdate_writer;
