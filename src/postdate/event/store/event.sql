-- Events, inserted in the transaction that caused them.

-- name: event_insert
SELECT event_insert($1, $2, $3, $4, $5, $6, $7)

-- name: event_insert_purged
SELECT job_purge_record($1, $2, $3, $4, $5, $6, $7)

-- name: event_insert_state
-- Events of changed rows: each with the digest of the row that it leaves behind. The change comes
-- before its event in the transaction. All digests are taken before the first row is written: Citus
-- reads nothing over a connection that copies rows.
WITH recorded AS (
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data, state)
    SELECT * FROM unnest(
           $1::smallint[], $2::integer[], $3::uuid[], $4::uuid[], $5::text[], $6::text[],
           $7::jsonb[],
           (SELECT array_agg(state_now(type, tenant_id, subject, data) ORDER BY place)
              FROM unnest($2::integer[], $3::uuid[], $5::text[], $7::jsonb[])
                   WITH ORDINALITY AS changed (tenant_id, subject, type, data, place)))
    RETURNING bucket, tenant_id, subject, event_id, type,
              event_digest(ROW(event.*)::event) AS digest)
INSERT INTO outbox (bucket, tenant_id, types, subjects, events, digests)
SELECT bucket, tenant_id, outbox_types(array_agg(type ORDER BY event_id)),
       array_agg(subject ORDER BY event_id), array_agg(event_id ORDER BY event_id),
       string_agg(digest, '' ORDER BY event_id)
  FROM recorded GROUP BY bucket, tenant_id

-- name: event_of_subject
-- In order. An event is never older than its subject, whose id bounds the partitions to read.
SELECT event_id, type, time, actor, data FROM fact_of_subject($1, $2)
 WHERE event_id > $3
 ORDER BY event_id LIMIT $4

-- name: event_last_actors
-- Who last did a thing of this type to each subject.
SELECT DISTINCT ON (e.subject) e.subject, e.actor
  FROM unnest($1::smallint[], $3::uuid[]) AS wanted (bucket, subject)
  JOIN event e ON e.bucket = wanted.bucket AND e.tenant_id = $2 AND e.subject = wanted.subject
   AND e.type = $4
 WHERE e.bucket = ANY ($1) ORDER BY e.subject, e.time DESC, e.event_id DESC
