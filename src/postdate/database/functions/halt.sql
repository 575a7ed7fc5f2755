-- Halts: which tenants stand still, and the lock that makes a switch sure.

-- The tenants of which nothing may start now. A statement that waited for the lock below carries a
-- time from before the switch was turned; what had begun when it was set holds all the same.
CREATE OR REPLACE FUNCTION tenants_held() RETURNS integer[]
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS
    $$SELECT coalesce(array_agg(DISTINCT h.tenant_id), '{}') FROM tenant_halt h
       WHERE h.mode = 'hold' AND h.lifted_at IS NULL AND h.from_at <= greatest(clock(), h.set_at)
         AND (h.until_at IS NULL OR h.until_at > clock())$$;

-- One lock stands between money and switches: a transaction that moves money or accepts work shares
-- it until its commit, and reads the switches after it has its share. Turning a switch commits that
-- first, then waits until it has had the lock alone: everything that did not see the switch has
-- ended by then. It waits for a second, for meanwhile no transaction gets a share, and asks again.
-- The holder of a share waits for no other lock for long, or one locked row would delay the
-- switches of all tenants.
CREATE OR REPLACE FUNCTION halt_share() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE halt_lock IN ROW SHARE MODE;
    IF current_setting('lock_timeout')::interval NOT BETWEEN '1 ms' AND '500 ms' THEN
        PERFORM set_config('lock_timeout', '500ms', true);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION halt_alone() RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT SET lock_timeout = '1s' AS $$
BEGIN
    LOCK TABLE halt_lock IN EXCLUSIVE MODE;
END $$;

-- Move money by hand only where nothing stands still.
CREATE OR REPLACE FUNCTION halt_refuse_held(tenants integer[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM halt_share();
    IF tenants && (SELECT tenants_held()) THEN
        RAISE EXCEPTION 'the tenant stands still' USING ERRCODE = 'PD004';
    END IF;
END $$;

-- Change what is open only while the kill switch is off, of which this node may not have
-- heard: a window that only holds lets terms be changed.
CREATE OR REPLACE FUNCTION halt_refuse_killed(tenant integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM halt_share();
    IF EXISTS (SELECT FROM tenant_halt h
                WHERE h.tenant_id = tenant AND h.kind = 'kill' AND h.lifted_at IS NULL
                  AND h.from_at <= greatest(clock(), h.set_at)
                  AND (h.until_at IS NULL OR h.until_at > clock())) THEN
        RAISE EXCEPTION 'the tenant stands still' USING ERRCODE = 'PD004';
    END IF;
END $$;

-- Refuse new work of tenants that accept none; else no switch is acknowledged before our commit.
-- What a schedule makes was promised before a window that drains, but ends at the kill switch: it
-- may have been turned since the schedule was found due, or triggered at a node that has not heard.
CREATE OR REPLACE FUNCTION halt_refuse_new(tenants integer[], schedules uuid[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM halt_share();
    IF EXISTS (SELECT FROM tenant_halt) AND EXISTS (
            SELECT FROM unnest(tenants, schedules) AS new (tenant, schedule)
              JOIN tenant_halt h ON h.tenant_id = coalesce(new.tenant, tenants[1])
             WHERE (h.kind = 'kill' OR (h.mode = 'drain' AND new.schedule IS NULL))
               AND h.lifted_at IS NULL AND h.from_at <= greatest(clock(), h.set_at)
               AND (h.until_at IS NULL OR h.until_at > clock())) THEN
        RAISE EXCEPTION 'the tenant accepts nothing new' USING ERRCODE = 'PD004';
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION tenants_held, halt_share, halt_alone, halt_refuse_held,
    halt_refuse_killed, halt_refuse_new FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_held, halt_share, halt_alone, halt_refuse_held,
    halt_refuse_killed, halt_refuse_new TO postdate_writer;
