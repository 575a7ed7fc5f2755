-- Time: what the present is, and how an instant is written.

-- Every comparison with the present goes through this one function. The planner inlines it, so it
-- costs nothing; the tests replace it to travel in time.
CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT statement_timestamp()';

-- An instant as everything we write has it: RFC 3339 in UTC, with a Z.
CREATE OR REPLACE FUNCTION instant_text(at timestamptz) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')$$;
