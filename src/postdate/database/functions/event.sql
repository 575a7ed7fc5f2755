-- Events: inserted with what waits to be sealed, as one call.

CREATE OR REPLACE FUNCTION event_insert(
    buckets smallint[], tenants integer[], subjects uuid[], ids uuid[], types text[],
    actors text[], datas jsonb[])
    RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    WITH recorded AS (
        INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
        SELECT * FROM unnest(buckets, tenants, subjects, ids, types, actors, datas)
        RETURNING bucket, tenant_id, subject, event_id, type,
                  event_digest(ROW(event.*)::event) AS digest)
    INSERT INTO outbox (bucket, tenant_id, types, subjects, events, digests)
    SELECT bucket, tenant_id, outbox_types(array_agg(type ORDER BY event_id)),
           array_agg(subject ORDER BY event_id), array_agg(event_id ORDER BY event_id),
           string_agg(digest, '' ORDER BY event_id)
      FROM recorded GROUP BY bucket, tenant_id;
END $$;

REVOKE EXECUTE ON FUNCTION event_insert FROM PUBLIC;
GRANT EXECUTE ON FUNCTION event_insert TO postdate_writer;
