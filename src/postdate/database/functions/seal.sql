-- Seals: what the outbox holds is taken, and what is sealed is found.

-- The types of a row of the outbox: one for all events where they are alike.
CREATE OR REPLACE FUNCTION outbox_types(types text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT CASE WHEN types[1] = ALL (types) THEN types[1:1] ELSE types END$$;

-- The first rows of a bucket's outbox in the order of sealing, up to a limit, and none
-- behind the one with which there are events enough. Below `low` only dead rows remain.
CREATE OR REPLACE FUNCTION outbox_head(
    one smallint, low timestamptz, event_limit integer, row_limit integer, without integer[]
) RETURNS TABLE (number bigint, place tid, "time" timestamptz, subjects uuid[])
    LANGUAGE sql STABLE AS $$
    SELECT number, place, time, subjects
      FROM (SELECT row_number() OVER own AS number, o.place, o.time, o.subjects,
                   sum(cardinality(o.subjects)) OVER own - cardinality(o.subjects) AS before
              FROM (SELECT ctid AS place, time, subjects, coalesce(events[1], subjects[1]) AS first
                      FROM outbox
                     WHERE bucket = one AND time >= low AND tenant_id <> ALL (without)
                     ORDER BY time, first LIMIT row_limit) AS o
            WINDOW own AS (ORDER BY o.time, o.first ROWS UNBOUNDED PRECEDING)) AS head
     WHERE before < event_limit
$$;

-- Which of these rows are not locked. What came after a locked row of the same subjects stays,
-- too, and so does what came after that: a tenant's order is made by taking.
CREATE OR REPLACE FUNCTION outbox_free(
    one smallint, low timestamptz, event_limit integer, row_limit integer, without integer[]
) RETURNS TABLE (place tid, "time" timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    row record;
    waits uuid[] := '{}';
BEGIN
    FOR row IN
        WITH head AS MATERIALIZED (
            SELECT * FROM outbox_head(one, low, event_limit, row_limit, without)),
        free AS MATERIALIZED (
            SELECT head.number FROM head
              JOIN outbox o ON o.bucket = one AND o.ctid = head.place
               FOR UPDATE OF o SKIP LOCKED)
        SELECT head.place, head.time, head.subjects,
               head.number IN (SELECT number FROM free) AS free
          FROM head ORDER BY head.number LOOP
        IF row.free AND NOT row.subjects && waits THEN
            place := row.place;
            time := row.time;
            RETURN NEXT;
        ELSE
            waits := waits || row.subjects;
        END IF;
    END LOOP;
END $$;

-- Take what the outbox holds of the buckets that no other node is sealing, the oldest of each
-- first. The lock comes before the read: a snapshot from before it could miss what the last sealer
-- has left. `around` goes around rows that a stranger has locked; it is no habit, for it writes
-- each row once more. Only the holder of the bucket's lock deletes, and no transaction changes a
-- row: it is found again by its place in the table, between the times that the index is asked for.
CREATE OR REPLACE FUNCTION outbox_take(
    low timestamptz, event_limit integer, row_limit integer, without integer[], around boolean
) RETURNS TABLE (tenant_id integer, "time" timestamptz, types text[], subjects uuid[],
                 events uuid[], digests bytea)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    one smallint;
    places tid[];
    since timestamptz;
    until timestamptz;
BEGIN
    FOR one IN SELECT l.bucket FROM outbox_lock l
                WHERE EXISTS (SELECT FROM outbox o WHERE o.bucket = l.bucket AND o.time >= low)
                ORDER BY l.bucket LOOP
        -- One bucket at a time: a sharded PostgreSQL locks no rows of several.
        PERFORM FROM outbox_lock l WHERE l.bucket = one FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        IF around THEN
            SELECT array_agg(head.place), min(head.time), max(head.time)
              INTO places, since, until
              FROM outbox_free(one, low, event_limit, row_limit, without) AS head;
        ELSE
            SELECT array_agg(head.place), min(head.time), max(head.time)
              INTO places, since, until
              FROM outbox_head(one, low, event_limit, row_limit, without) AS head;
        END IF;
        RETURN QUERY
            DELETE FROM outbox o
             WHERE o.bucket = one AND o.time BETWEEN since AND until AND o.ctid = ANY (places)
            RETURNING o.tenant_id, o.time, o.types, o.subjects, o.events, o.digests;
    END LOOP;
END $$;

-- The position of an event in its tenant's chain; NULL while it is not sealed. It is in one of the
-- first seals made after it: only one whose transaction took minutes is in a later one than the
-- thousandth. What a test clock shows says nothing about when something was sealed.
CREATE OR REPLACE FUNCTION seal_find(
    of_tenant integer, of_subject uuid, of_event uuid, since timestamptz)
    RETURNS bigint LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT near.position + one.place - 1
      FROM (SELECT EXISTS (SELECT FROM test_clock c WHERE c.tenant_id = of_tenant) AS test) AS own
     CROSS JOIN LATERAL (
           SELECT s.position, s.subjects, s.events FROM seal s
             WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant
               AND s.sealed_at >= CASE WHEN own.test THEN 'epoch' ELSE since END
             ORDER BY s.sealed_at, s.position LIMIT CASE WHEN own.test THEN 1000000 ELSE 1000 END
           ) AS near
     CROSS JOIN LATERAL unnest(near.subjects, near.events)
                WITH ORDINALITY AS one (subject, event_id, place)
     WHERE one.subject = of_subject AND coalesce(one.event_id, one.subject) = of_event
     LIMIT 1
$$;

-- A tenant's events after a position and up to another, by type. Functions, so that a sharded
-- PostgreSQL reads the seals first and then what they seal; others inline them.
CREATE OR REPLACE FUNCTION seal_walk(
    of_tenant integer, after bigint, until bigint, patterns text[], max_count bigint)
    RETURNS TABLE ("position" bigint, type text, subject uuid, event_id uuid,
                   sealed_at timestamptz)
    LANGUAGE sql STABLE AS $$
    SELECT s.position + one.place - 1, s.types[one.kind], one.subject,
           coalesce(one.event_id, one.subject), s.sealed_at
      FROM seal s
     CROSS JOIN LATERAL unnest(s.kinds, s.subjects, s.events)
                WITH ORDINALITY AS one (kind, subject, event_id, place)
     WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant
       AND s.position <= until
       AND s.position >= coalesce((
           SELECT first.position FROM seal first
            WHERE first.bucket = tenant_bucket(of_tenant) AND first.tenant_id = of_tenant
              AND first.position <= after + 1 ORDER BY first.position DESC LIMIT 1), 0)
       AND s.position + one.place - 1 > after AND s.position + one.place - 1 <= until
       AND s.types[one.kind] LIKE ANY (patterns)
     ORDER BY s.position, one.place LIMIT max_count
$$;

-- Decisions before a position, the newest first: an index knows the seals that hold any.
CREATE OR REPLACE FUNCTION seal_decided(
    of_tenant integer, before bigint, patterns text[], max_count bigint)
    RETURNS TABLE ("position" bigint, type text, subject uuid, event_id uuid)
    LANGUAGE sql STABLE AS $$
    SELECT s.position + one.place - 1, s.types[one.kind], one.subject,
           coalesce(one.event_id, one.subject)
      FROM seal s
     CROSS JOIN LATERAL unnest(s.kinds, s.subjects, s.events)
                WITH ORDINALITY AS one (kind, subject, event_id, place)
     WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant AND s.decision
       AND s.position < before AND s.position + one.place - 1 < before
       AND s.types[one.kind] LIKE ANY (patterns)
     ORDER BY s.position DESC, one.place DESC LIMIT max_count
$$;

-- The seals of a tenant after a position.
CREATE OR REPLACE FUNCTION seal_after(of_tenant integer, after bigint, max_count bigint)
    RETURNS SETOF seal LANGUAGE sql STABLE AS $$
    SELECT * FROM seal s
     WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant AND s.position > after
     ORDER BY s.position LIMIT max_count
$$;

-- The first seals of a tenant that were made since an instant.
CREATE OR REPLACE FUNCTION seal_since(of_tenant integer, since timestamptz, max_count bigint)
    RETURNS SETOF seal LANGUAGE sql STABLE AS $$
    SELECT * FROM seal s
     WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant
       AND s.sealed_at >= since AND s.seal_id >= uuid_floor(since - interval '1 day')
     ORDER BY s.sealed_at, s.position LIMIT max_count
$$;

-- The seal that holds a position of a tenant's chain.
CREATE OR REPLACE FUNCTION seal_around(of_tenant integer, at_position bigint)
    RETURNS SETOF seal LANGUAGE sql STABLE AS $$
    SELECT * FROM seal s
     WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant
       AND s.position <= at_position
     ORDER BY s.position DESC LIMIT 1
$$;

-- When that happened which stands at a position of a tenant's chain; NULL where nothing does yet.
CREATE OR REPLACE FUNCTION seal_time(of_tenant integer, at_position bigint) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    one record;
BEGIN
    SELECT s.types[s.kinds[place]] AS type, s.subjects[place] AS subject,
           coalesce(s.events[place], s.subjects[place]) AS event_id INTO one
      FROM (SELECT k.types, k.kinds, k.subjects, k.events,
                   (at_position + 1 - k.position)::integer AS place
              FROM seal_around(of_tenant, at_position) AS k) AS s;
    RETURN (SELECT f.time FROM fact_find(of_tenant, one.type, one.subject, one.event_id) AS f);
END $$;

REVOKE EXECUTE ON FUNCTION outbox_types, outbox_head, outbox_free, outbox_take, seal_find,
    seal_time FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_types, outbox_head, outbox_free, outbox_take TO postdate_writer;
GRANT EXECUTE ON FUNCTION seal_find, seal_time TO postdate_reader, postdate_writer;
