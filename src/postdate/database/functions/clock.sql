-- Time: what the present is, and how an instant is written.

-- Every comparison with the present goes through this one function. The planner inlines it, so it
-- costs next to nothing; the tests replace it to travel in time. A transaction on behalf of a
-- tenant in test mode says which instant the tenant's clock shows (docs/concepts/time.md). A node
-- tells its sessions how far it believes the server's clock, and what it believes where the clock
-- is beyond that: a leap moves nothing, because the statement that would act on it sees another
-- time. CASE, not COALESCE: under row-level security the planner takes that for leaky, and uses no
-- index. Citus evaluates every branch, so that none may fail.
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT CASE WHEN current_setting('postdate.clock', true) <> ''
                  THEN nullif(current_setting('postdate.clock', true), '')::timestamptz
                  WHEN current_setting('postdate.clock_limit', true) <> ''
                   AND statement_timestamp()
                       > nullif(current_setting('postdate.clock_limit', true), '')::timestamptz
                  THEN nullif(current_setting('postdate.clock_believed', true), '')::timestamptz
                  ELSE statement_timestamp() END$$;

-- The server's time as far as it is believed, whatever a tenant's clock shows: for what nodes tell
-- each other.
CREATE OR REPLACE FUNCTION server_clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT CASE WHEN current_setting('postdate.clock_limit', true) <> ''
                   AND statement_timestamp()
                       > nullif(current_setting('postdate.clock_limit', true), '')::timestamptz
                  THEN nullif(current_setting('postdate.clock_believed', true), '')::timestamptz
                  ELSE statement_timestamp() END$$;

-- What the server's clock shows, believed or not: only for whoever judges it.
CREATE OR REPLACE FUNCTION machine_clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT statement_timestamp()';

-- An instant as everything we write has it: RFC 3339 in UTC, with a Z.
CREATE OR REPLACE FUNCTION instant_text(at timestamptz) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')$$;
