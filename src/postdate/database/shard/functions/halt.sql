-- Halts where several database nodes move money: the lock that makes a switch sure is had alone at
-- each of them, one moment at each. What did not see the switch holds its share where it began.

-- Have the lock of this node alone, and say which switches the node knows.
CREATE OR REPLACE FUNCTION halt_alone_here() RETURNS text LANGUAGE plpgsql
    SET search_path FROM CURRENT SET lock_timeout = '1s' AS $$
BEGIN
    LOCK TABLE halt_lock IN EXCLUSIVE MODE;
    RETURN (SELECT md5(string_agg(h::text, ' ' ORDER BY tenant_id, kind)) FROM tenant_halt h);
END $$;
REVOKE EXECUTE ON FUNCTION halt_alone_here FROM PUBLIC;
GRANT EXECUTE ON FUNCTION halt_alone_here TO postdate_writer;

-- A node that was away while the switch was committed learns of it a little later: until all know
-- the same switches, the lock counts as not had, and is asked for again.
CREATE OR REPLACE FUNCTION halt_alone() RETURNS void LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
BEGIN
    IF (SELECT bool_or(NOT success) OR count(DISTINCT result) > 1
          FROM run_command_on_all_nodes('SELECT postdate.halt_alone_here()')) THEN
        RAISE EXCEPTION 'not every database node has had the lock of halts'
            USING ERRCODE = 'lock_not_available';
    END IF;
END $$;
