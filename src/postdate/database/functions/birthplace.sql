-- Whether this database is a restored dump.

CREATE OR REPLACE FUNCTION birthplace_now() RETURNS text
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                     (SELECT oid FROM pg_database WHERE datname = current_database()),
                     'timer'::regclass::oid)
$$;

-- Say whether the database was restored from a dump since the last call. The owner asks before any
-- node writes.
CREATE OR REPLACE FUNCTION birthplace_moved() RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE birthplace SET place = birthplace_now() WHERE place <> birthplace_now();
    RETURN FOUND;
END $$;

REVOKE EXECUTE ON FUNCTION birthplace_now, birthplace_moved FROM PUBLIC;
