-- Subscriptions: who is sent which events, and how far that has come.
--
-- A subscription with nothing to send has no timer, so it costs nothing. The sealer makes one for
-- each subscription that a new event may be for; delivery removes it when it has caught up.

CREATE TABLE subscription (
    bucket          smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id       integer NOT NULL REFERENCES tenant,
    subscription_id uuid NOT NULL,
    destination     jsonb NOT NULL,
    types           text[] NOT NULL CHECK (cardinality(types) > 0),
    -- The types once more, as LIKE wants them.
    patterns        text[] NOT NULL,
    accounts        text[],
    -- The tenant's events up to here are delivered, or were not asked for.
    position        bigint NOT NULL CHECK (position >= 0),
    -- Raised by a person's change: a delivery that was under way then no longer moves anything.
    version         integer NOT NULL DEFAULT 1,
    failures        integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since   timestamptz,
    error           text,
    delivered_at    timestamptz,
    paused_at       timestamptz,
    paused_note     text,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, tenant_id, subscription_id),
    CHECK ((failures = 0) = (failing_since IS NULL)),
    CHECK ((paused_at IS NULL) = (paused_note IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX subscription_tenant ON subscription (tenant_id, subscription_id);

SELECT table_guard('subscription', fact => false);

-- Let a subscription rest that has seen everything up to a position. The sealer holds the tenant's
-- row until its commit and then makes timers: waiting for that row first, in the same order, leaves
-- no moment in which a new event finds the old timer and loses it.
CREATE FUNCTION subscription_rest(_bucket smallint, _tenant_id integer, _subscription_id uuid,
                                  _token bigint, _position bigint)
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
REVOKE EXECUTE ON FUNCTION subscription_rest FROM PUBLIC;
GRANT EXECUTE ON FUNCTION subscription_rest TO postdate_writer;
