-- Halts where several database nodes move money: the lock that makes a switch sure is had alone at
-- each of them, one moment at each. What did not see the switch holds its share where it began.

-- A node that was away while the switch was committed learns of it a little later: until all know
-- the same switches, the lock counts as not had, and is asked for again.
CREATE OR REPLACE FUNCTION halt_alone() RETURNS void LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    IF (SELECT bool_or(NOT success) OR count(DISTINCT result) > 1
          FROM run_command_on_all_nodes($command$
               SELECT CASE WHEN set_config('lock_timeout', '1s', true) IS NOT NULL
                            AND pg_advisory_xact_lock(hashtext('tenant_halt')) IS NOT NULL
                           THEN (SELECT md5(string_agg(h::text, ' ' ORDER BY tenant_id, kind))
                                   FROM postdate.tenant_halt h) END$command$)) THEN
        RAISE EXCEPTION 'not every database node has had the lock of halts'
            USING ERRCODE = 'lock_not_available';
    END IF;
END $$;
