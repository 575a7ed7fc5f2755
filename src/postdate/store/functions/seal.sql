-- Seals: what the outbox holds is taken, and what is sealed is found.

-- Take what the outbox holds of the buckets that nobody else is sealing, the oldest of each first.
-- The lock comes before the look: a snapshot from before it could miss what the last sealer has
-- left. Below `low` only dead rows remain. `around` goes around rows that a stranger has locked,
-- and around what came after them of the same subject: a tenant's order is made here, so they come
-- later. It is no habit, for it writes each row once more. Whoever holds the bucket's lock is the
-- only one to delete, and nobody changes a row: one is found again by its place in the table.
CREATE OR REPLACE FUNCTION outbox_take(
    low timestamptz, per_bucket integer, without integer[], around boolean
) RETURNS TABLE (tenant_id integer, "time" timestamptz, subject uuid, event_id uuid, type text,
                 digest bytea)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    one smallint;
BEGIN
    FOR one IN SELECT l.bucket FROM outbox_lock l
                WHERE EXISTS (SELECT FROM outbox o WHERE o.bucket = l.bucket AND o.time >= low)
                ORDER BY l.bucket FOR NO KEY UPDATE SKIP LOCKED LOOP
        IF around THEN
            RETURN QUERY
                WITH head AS MATERIALIZED (
                    SELECT head.ctid AS place, head.time, head.subject FROM outbox head
                     WHERE head.bucket = one AND head.time >= low
                       AND head.tenant_id <> ALL (without)
                     ORDER BY head.time, coalesce(head.event_id, head.subject) LIMIT per_bucket),
                free AS MATERIALIZED (
                    SELECT head.place FROM head
                      JOIN outbox o ON o.bucket = one AND o.ctid = head.place
                       FOR UPDATE OF o SKIP LOCKED),
                locked AS (
                    SELECT head.subject, min(head.time) AS since FROM head
                     WHERE head.place NOT IN (SELECT place FROM free)
                     GROUP BY head.subject)
                DELETE FROM outbox o USING free
                 WHERE o.bucket = one AND o.ctid = free.place
                   AND NOT EXISTS (SELECT FROM locked
                                    WHERE locked.subject = o.subject AND locked.since <= o.time)
                RETURNING o.tenant_id, o.time, o.subject, coalesce(o.event_id, o.subject),
                          o.type, o.digest;
            CONTINUE;
        END IF;
        RETURN QUERY
            DELETE FROM outbox o
             USING (SELECT head.ctid AS place FROM outbox head
                     WHERE head.bucket = one AND head.time >= low
                       AND head.tenant_id <> ALL (without)
                     ORDER BY head.time, coalesce(head.event_id, head.subject)
                     LIMIT per_bucket) AS head
             WHERE o.bucket = one AND o.ctid = head.place
            RETURNING o.tenant_id, o.time, o.subject, coalesce(o.event_id, o.subject),
                          o.type, o.digest;
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

REVOKE EXECUTE ON FUNCTION outbox_take, seal_find FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_take TO postdate_writer;
GRANT EXECUTE ON FUNCTION seal_find TO postdate_reader, postdate_writer;
