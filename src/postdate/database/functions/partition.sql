-- Partitions: weekly, named after their Monday, made ahead by a maintenance task. The default
-- partition catches what a wildly wrong clock would otherwise break; it should stay empty.

CREATE OR REPLACE FUNCTION partition_name(parent regclass, monday timestamptz) RETURNS text
    LANGUAGE sql STABLE AS
    $$SELECT format('%s_%s', (SELECT relname FROM pg_class WHERE oid = parent),
                    to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'))$$;

CREATE OR REPLACE FUNCTION partition_ensure(parent regclass, monday timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    child text := partition_name(parent, monday);
BEGIN
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', child, parent,
                   uuid_floor(monday), uuid_floor(monday + interval '7 days'));
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', child);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', child);
    RETURN true;
END $$;

-- Make every partition from the last week to `weeks` ahead. Returns how many were made, and which
-- could not be: a row in the default partition that belongs to a week stands in the way of that
-- week alone, a locked table in the way of that table alone.
CREATE OR REPLACE FUNCTION partition_create_ahead(
    weeks integer, OUT made integer, OUT blocked text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    parent regclass;
    week integer;
    monday timestamptz;
BEGIN
    made := 0;
    blocked := '{}';
    FOR parent IN SELECT p.partrelid::regclass FROM pg_partitioned_table p
                  JOIN pg_class c ON c.oid = p.partrelid
                  WHERE c.relnamespace = current_schema()::regnamespace ORDER BY c.relname LOOP
        FOR week IN -1 .. weeks LOOP
            monday := (date_trunc('week', clock() AT TIME ZONE 'UTC')
                       + week * interval '7 days') AT TIME ZONE 'UTC';
            BEGIN
                IF partition_ensure(parent, monday) THEN
                    made := made + 1;
                END IF;
            EXCEPTION
                WHEN check_violation THEN
                    blocked := blocked || partition_name(parent, monday);
                WHEN lock_not_available OR deadlock_detected THEN
                    blocked := blocked || partition_name(parent, monday);
                    EXIT;
            END;
        END LOOP;
    END LOOP;
END $$;

-- What lies in the default partitions, by table and week, up to 10,000 rows of each table.
CREATE OR REPLACE FUNCTION partition_list_misplaced()
    RETURNS TABLE (parent text, monday timestamptz, strays bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT c.relname, a.attname, p.partdefid::regclass AS apart
                   FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
                  WHERE c.relnamespace = current_schema()::regnamespace AND p.partdefid <> 0
                  ORDER BY c.relname LOOP
        RETURN QUERY EXECUTE format(
            'SELECT %L::text, week AT TIME ZONE ''UTC'', count(*) FROM (
                 SELECT date_trunc(''week'', uuid_instant(%I) AT TIME ZONE ''UTC'') AS week
                   FROM %s LIMIT 10000) AS stray GROUP BY week ORDER BY week',
            found.relname, found.attname, found.apart);
    END LOOP;
END $$;

-- Make the partition of one week of one table although rows of that week lie in the default
-- partition: they are moved into it. The table is locked meanwhile.
CREATE OR REPLACE FUNCTION partition_move_misplaced(parent text, monday timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    target record;
    child text;
    low uuid := uuid_floor(monday);
    high uuid := uuid_floor(monday + interval '7 days');
    moved bigint;
BEGIN
    SELECT c.oid::regclass AS name, a.attname AS key INTO target
      FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = parent;
    IF target IS NULL THEN
        RAISE EXCEPTION 'there is no partitioned table %', parent USING ERRCODE = 'PD003';
    END IF;
    child := partition_name(target.name, monday);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.name);
    IF to_regclass(child) IS NOT NULL THEN
        RAISE EXCEPTION '% is there already', child USING ERRCODE = 'PD003';
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS '
                   'INCLUDING STORAGE)', child, target.name);
    SET LOCAL postdate.prune = 'on';
    EXECUTE format('WITH moved AS (DELETE FROM %s WHERE %I >= %L AND %I < %L RETURNING *) '
                   'INSERT INTO %I SELECT * FROM moved',
                   target.name, target.key, low, target.key, high, child);
    GET DIAGNOSTICS moved = ROW_COUNT;
    SET LOCAL postdate.prune = 'off';
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                   target.name, child, low, high);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', child);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', child);
    RETURN moved;
END $$;

REVOKE EXECUTE ON FUNCTION
    partition_ensure, partition_create_ahead, partition_list_misplaced, partition_move_misplaced
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    partition_create_ahead, partition_list_misplaced, partition_move_misplaced
    TO postdate_writer;
