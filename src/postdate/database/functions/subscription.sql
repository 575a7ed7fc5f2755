-- Subscriptions: when there is nothing to deliver.

-- Let a subscription rest that has seen everything up to a position. The sealer holds the tenant's
-- row until its commit and then makes timers: waiting for that row first, in the same order, leaves
-- no moment in which a new event finds the old timer and loses it.
CREATE OR REPLACE FUNCTION subscription_release_if_idle(
    _bucket smallint, _tenant_id integer, _subscription_id uuid, _token bigint, _position bigint)
    RETURNS boolean LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    last bigint;
BEGIN
    SELECT c.position INTO last FROM chain c
     WHERE c.bucket = tenant_bucket(_tenant_id) AND c.tenant_id = _tenant_id FOR SHARE;
    IF last > _position THEN
        RETURN false;
    END IF;
    DELETE FROM timer t WHERE t.bucket = _bucket AND t.subject = _subscription_id
       AND t.token = _token AND t.claimed_at IS NOT NULL;
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION subscription_release_if_idle FROM PUBLIC;
GRANT EXECUTE ON FUNCTION subscription_release_if_idle TO postdate_writer;
