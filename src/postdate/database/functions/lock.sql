-- Locks by name: rows that only the roles of nodes can reach (`lock_tables_ensure` says why).

-- Take a lock until the commit. The first transaction to ask makes its row, and others wait for
-- that as they wait for the lock.
CREATE OR REPLACE FUNCTION lock_named(of_name text, of_number integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO named_lock VALUES (of_name, of_number) ON CONFLICT DO NOTHING;
    PERFORM FROM named_lock l WHERE l.name = of_name AND l.number = of_number FOR UPDATE;
END $$;

-- Share a lock until the commit.
CREATE OR REPLACE FUNCTION lock_named_share(of_name text, of_number integer) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM named_lock l WHERE l.name = of_name AND l.number = of_number FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM lock_named(of_name, of_number);
    END IF;
END $$;

REVOKE EXECUTE ON FUNCTION lock_named, lock_named_share FROM PUBLIC;
GRANT EXECUTE ON FUNCTION lock_named TO postdate_writer;
