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

-- Whether a lane of a tenant has all its slots taken, and no start of its rate left. Tenants have
-- no right to permits.
CREATE OR REPLACE FUNCTION permit_waits(
    in_bucket smallint, of_tenant integer, of_lane text, max_running integer, rate float8)
    RETURNS TABLE (at_limit boolean, at_rate boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT coalesce((SELECT sum(p.slots) FROM permit p
                      WHERE p.bucket = in_bucket
                        AND p.scope = 'lane:' || of_tenant || '/' || of_lane
                        AND p.expires_at > clock()) >= max_running, false),
           coalesce((SELECT s.tokens + rate * extract(epoch FROM clock() - s.refilled_at) < 1
                       FROM permit_scope s WHERE s.bucket = in_bucket
                        AND s.scope = 'lane:' || of_tenant || '/' || of_lane), false)
$$;

REVOKE EXECUTE ON FUNCTION permit_lock, permit_waits FROM PUBLIC;
GRANT EXECUTE ON FUNCTION permit_lock TO postdate_writer;
GRANT EXECUTE ON FUNCTION permit_waits TO postdate_reader, postdate_writer;
