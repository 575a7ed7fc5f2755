-- The watch of the server's clock.

-- Record the time that a node believes. One that has not seen the last confirmation records
-- nothing, and none waits for the row: the node that has locked it records the time, too.
CREATE OR REPLACE FUNCTION clock_watch_record(
    believed timestamptz, since timestamptz, seen bigint, why text) RETURNS void
    LANGUAGE sql SET search_path FROM CURRENT AS
    $$UPDATE clock_watch SET at = believed, watched_since = since, doubt = why
       WHERE one IN (SELECT one FROM clock_watch WHERE confirmations = seen
                        FOR UPDATE SKIP LOCKED)$$;

-- What clock() shows is a matter of settings of the session: no client chooses them. While nodes
-- doubt the server's clock, a client's transaction goes by the time that they believe.
CREATE OR REPLACE FUNCTION client_clock() RETURNS void
    LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    SELECT set_config('postdate.clock', '', true),
           set_config('postdate.clock_limit', CASE WHEN doubt IS NULL THEN '' ELSE at::text END,
                      true),
           set_config('postdate.clock_believed', at::text, true)
      FROM clock_watch
$$;

REVOKE EXECUTE ON FUNCTION clock_watch_record FROM PUBLIC;
GRANT EXECUTE ON FUNCTION clock_watch_record TO postdate_writer;
