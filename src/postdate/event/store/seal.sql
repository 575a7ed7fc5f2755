-- Seals: what the outbox held, in one order for each tenant. `$bucket` is always the tenant's own.

-- name: seal_waiting
-- Whether there is anything to seal: one probe for each bucket, above the dead rows.
SELECT EXISTS (SELECT 1 FROM outbox_lock l
                WHERE EXISTS (SELECT FROM outbox o WHERE o.bucket = l.bucket AND o.time >= $1)),
       clock()

-- name: seal_take
SELECT tenant_id, time, types, subjects, events, digests FROM outbox_take($1, $2, $3, $4, $5)
 ORDER BY time, coalesce(events[1], subjects[1])

-- name: seal_advance
-- Take the next positions of each tenant. The rows are locked in the order of the tenants and stay
-- so until the commit: positions become visible in their order, and two sealers never deadlock.
INSERT INTO chain AS c (bucket, tenant_id, position)
SELECT tenant_bucket(tenant_id), tenant_id, events
  FROM unnest($1::integer[], $2::bigint[]) AS taken (tenant_id, events)
 ORDER BY tenant_id
ON CONFLICT (bucket, tenant_id) DO UPDATE SET position = c.position + excluded.position
RETURNING tenant_id, position, hash

-- name: seal_known
-- Which of these tenants have a chain.
SELECT tenant_id FROM chain WHERE bucket = $1 AND tenant_id = ANY ($2::integer[])

-- name: seal_free
-- Tenants whose chains are not locked.
SELECT tenant_id FROM chain
 WHERE bucket = $1 AND tenant_id = ANY ($2::integer[]) FOR NO KEY UPDATE SKIP LOCKED

-- name: seal_insert
INSERT INTO seal (bucket, tenant_id, seal_id, position, sealed_at, decision, types, kinds, subjects,
                  events, digests, previous, hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: seal_move
-- Note the new ends of the chains.
UPDATE chain c SET hash = m.hash
  FROM unnest($1::integer[], $2::bytea[]) AS m (tenant_id, hash)
 WHERE c.bucket = tenant_bucket(m.tenant_id) AND c.tenant_id = m.tenant_id

-- name: seal_chains
-- The end of every chain, after a tenant.
SELECT tenant_id, position, hash FROM chain ORDER BY tenant_id

-- name: seal_starts
-- Where chains begin whose old seals were detached ($1 is the first id of a seal that was not). A
-- start with seals behind it that are still there is forged, and counts for nothing.
SELECT c.tenant_id, c.position, c.hash FROM chain_start c
 WHERE NOT EXISTS (SELECT FROM seal s
                    WHERE s.bucket = c.bucket AND s.tenant_id = c.tenant_id
                      AND s.position <= c.position AND s.seal_id >= $1::uuid)

-- name: seal_position
-- How many events of a tenant are sealed.
SELECT position FROM chain WHERE bucket = tenant_bucket($1) AND tenant_id = $1

-- name: seal_positions
-- How many events of these tenants are sealed.
SELECT tenant_id, position FROM chain
 WHERE bucket = ANY (SELECT tenant_bucket(t) FROM unnest($1::integer[]) AS t)
   AND tenant_id = ANY ($1)

-- name: seal_page
-- A tenant's events between two positions, by type and by the accounts that they are about. The
-- events are looked up one by one: left to itself, the planner reads a whole partition for them
-- as soon as it has statistics, for it does not see that the first few positions are enough. What
-- was pruned has left its position and its digest.
WITH s AS MATERIALIZED (
    SELECT * FROM seal_walk($1, $2, $3, $4, CASE WHEN $5::text[] IS NULL THEN $6::bigint END))
SELECT s.position, s.event_id, s.subject, s.type, coalesce(e.time, s.sealed_at) AS time, e.actor,
       CASE WHEN e.time IS NULL THEN '{"pruned": true}' ELSE e.data::text END AS data
  FROM s LEFT JOIN LATERAL (
       SELECT f.time, f.actor, f.data FROM fact_find($1, s.type, s.subject, s.event_id) AS f
       OFFSET 0) AS e ON true
 WHERE $5 IS NULL OR e.data ->> 'account_id' = ANY ($5) OR payment_touches($1, s.subject, $5)
 ORDER BY s.position LIMIT $6

-- name: seal_page_decided
-- Decisions before a position, the newest first: an index knows the seals that hold any.
WITH s AS MATERIALIZED (SELECT * FROM seal_decided($1, $2, $3, $4))
SELECT s.position, s.event_id, s.subject, s.type, e.time, e.actor, e.data::text AS data
  FROM s CROSS JOIN LATERAL (
       SELECT e.time, e.actor, e.data FROM event_find(s.subject, s.event_id) AS e
       OFFSET 0) AS e
 ORDER BY s.position DESC

-- name: seal_page_of_subject
-- A page of the events of one subject: they are few, and found by its key.
SELECT s.position, e.event_id, $7::uuid AS subject, e.type, e.time, e.actor, e.data::text AS data
  FROM fact_of_subject($1, $7) AS e
 CROSS JOIN LATERAL (SELECT seal_find($1, $7, e.event_id, e.time) AS position OFFSET 0) AS s
 WHERE s.position > $2 AND s.position <= $3 AND e.type LIKE ANY ($4::text[])
   AND ($5::text[] IS NULL OR e.data ->> 'account_id' = ANY ($5)
        OR payment_touches($1, $7, $5))
 ORDER BY s.position LIMIT $6

-- name: seal_traceparents
-- What follows the jobs and payments that events tell of.
SELECT wanted.subject, coalesce(j.traceparent, p.traceparent) AS traceparent
  FROM unnest($2::smallint[], $3::uuid[]) AS wanted (bucket, subject)
  LEFT JOIN job j ON j.bucket = wanted.bucket AND j.tenant_id = $1 AND j.job_id = wanted.subject
  LEFT JOIN payment p ON p.bucket = wanted.bucket AND p.tenant_id = $1
       AND p.payment_id = wanted.subject
 WHERE j.traceparent IS NOT NULL OR p.traceparent IS NOT NULL

-- name: seal_stored
-- The seals of a tenant after a position, each with the digests of what its events say now: NULL
-- where an event is gone.
SELECT s.position, s.sealed_at, s.types, s.kinds, s.subjects, s.events, s.digests, s.previous,
       s.hash, s.decision, now.digests AS now
  FROM seal_after($1, $2, $3) AS s
 CROSS JOIN LATERAL (
       SELECT array_agg(sha256(f.record) ORDER BY one.place) AS digests
         FROM unnest(s.kinds, s.subjects, s.events)
              WITH ORDINALITY AS one (kind, subject, event_id, place)
         LEFT JOIN LATERAL (
              SELECT f.record FROM fact_find(s.tenant_id, s.types[one.kind], one.subject,
                                             coalesce(one.event_id, one.subject)) AS f
              OFFSET 0) AS f ON true) AS now
 ORDER BY s.position

-- name: seal_first_positions
-- Where the seals of a tenant stand, after a position and up to another.
SELECT position FROM seal
 WHERE bucket = tenant_bucket($1) AND tenant_id = $1 AND position > $2 AND position <= $3
 ORDER BY position

-- name: seal_repeated
-- Which of these events an earlier place of the chain holds, in one of the first seals ($3) that
-- were made since an instant ($2).
SELECT DISTINCT wanted.position, wanted.event_id
  FROM seal_since($1, $2, $3) AS s
 CROSS JOIN LATERAL unnest(s.subjects, s.events)
            WITH ORDINALITY AS one (subject, event_id, place)
  JOIN unnest($4::bigint[], $5::uuid[], $6::uuid[]) AS wanted (position, subject, event_id)
    ON wanted.subject = one.subject
   AND wanted.event_id = coalesce(one.event_id, one.subject)
   AND wanted.position > s.position + one.place - 1
 ORDER BY wanted.position

-- name: seal_unsealed
-- Events in no seal that do not wait for one: inserted by hand, or their seal was removed. The
-- whole address counts: an id that another event is sealed under is no help, nor is that of a job
-- or payment, which are their own first events. Events older than the
-- oldest seal that is left ($4) are not asked for theirs. What is sealed in the time that is asked
-- for is put beside its seals all at once; only an event that is not found there is searched for
-- alone, in every seal after it. $1 is a tenant or NULL, $2 buckets or NULL, $3 how many, and
-- ids are from $4 on and below $5.
WITH fact AS (
    SELECT tenant_id, CASE WHEN event_id = subject THEN 'forged ' ELSE '' END || type AS type,
           subject, event_id, greatest(least(time, clock()), 'epoch') AS time
      FROM event
     WHERE ($2::smallint[] IS NULL OR bucket = ANY ($2))
       AND event_id >= $4::uuid AND event_id < $5::uuid
     UNION ALL
    SELECT tenant_id, 'job.accepted', job_id, job_id,
           greatest(least(created_at, clock()), 'epoch')
      FROM job
     WHERE ($2 IS NULL OR bucket = ANY ($2)) AND job_id >= $4 AND job_id < $5
     UNION ALL
    SELECT tenant_id, 'payment.scheduled', payment_id, payment_id,
           greatest(least(created_at, clock()), 'epoch')
      FROM payment
     WHERE ($2 IS NULL OR bucket = ANY ($2)) AND payment_id >= $4 AND payment_id < $5
     UNION ALL
    SELECT tenant_id, CASE WHEN transfer_id IS NOT NULL THEN 'payment.completed'
                           WHEN status = 'COMPLETED' THEN 'job.completed'
                           ELSE 'job.failed' END,
           subject, coalesce(transfer_id, outcome_event_id(subject, finished_at), subject),
           greatest(least(finished_at, clock()), 'epoch')
      FROM outcome
     WHERE ($2 IS NULL OR bucket = ANY ($2)) AND subject >= $4 AND subject < $5
       AND (actor IS NOT NULL OR transfer_id IS NOT NULL)),
sealed AS (
    SELECT s.tenant_id, s.sealed_at, s.types[one.kind] AS type, one.subject,
           coalesce(one.event_id, one.subject) AS event_id
      FROM seal s
     CROSS JOIN LATERAL unnest(s.kinds, s.subjects, s.events) AS one (kind, subject, event_id)
     WHERE ($1::integer IS NULL OR s.tenant_id = $1) AND s.seal_id >= $4 AND s.seal_id < $5
       AND ($2 IS NULL OR bucket_of(one.subject) = ANY ($2))),
left_over AS MATERIALIZED (
    SELECT f.tenant_id, f.type, f.subject, f.event_id, since.time
      FROM fact f
     CROSS JOIN LATERAL (
           -- What a test clock shows says nothing about when something was sealed.
           SELECT CASE WHEN f.tenant_id = ANY (ARRAY(SELECT c.tenant_id FROM test_clock c))
                       THEN timestamptz '1970-01-02 00:00Z' ELSE f.time END AS time) AS since
     WHERE ($1::integer IS NULL OR f.tenant_id = $1)
       AND NOT EXISTS (
           SELECT FROM sealed s
            WHERE s.subject = f.subject AND s.event_id = f.event_id AND s.type = f.type
              AND s.tenant_id = f.tenant_id AND s.sealed_at >= since.time))
SELECT f.tenant_id, f.event_id
  FROM left_over f
 WHERE coalesce(
       (SELECT true FROM seal s
         WHERE s.bucket = tenant_bucket(f.tenant_id) AND s.tenant_id = f.tenant_id
           AND s.seal_id >= uuid_floor(f.time - interval '1 day')
           AND s.sealed_at >= f.time
           AND f.subject = ANY (s.subjects)
           AND EXISTS (SELECT FROM unnest(array_positions(s.subjects, f.subject)) AS place
                        WHERE coalesce(s.events[place], f.subject) = f.event_id
                          AND s.types[s.kinds[place]] = f.type)
         LIMIT 1),
       (SELECT true FROM outbox o
         WHERE o.bucket = bucket_of(f.subject) AND o.tenant_id = f.tenant_id
           AND f.subject = ANY (o.subjects)
           AND EXISTS (SELECT FROM unnest(array_positions(o.subjects, f.subject)) AS place
                        WHERE coalesce(o.events[place], f.subject) = f.event_id
                          AND coalesce(o.types[place], o.types[1]) = f.type)
         LIMIT 1))
       IS NULL
 ORDER BY f.tenant_id, f.event_id LIMIT $3

-- name: seal_pruned
-- Below this id a tenant's jobs may have been pruned. None is before it has rested for a day.
SELECT coalesce((SELECT uuid_floor(least(before, clock() - interval '1 day')) FROM job_pruned
                  WHERE tenant_id = $1), uuid_floor('epoch'))

-- name: seal_purged
-- Which of these jobs were removed by a recorded deletion.
SELECT e.subject FROM unnest($2::smallint[], $3::uuid[]) AS gone (bucket, subject)
  JOIN event e ON e.bucket = gone.bucket AND e.subject = gone.subject
 WHERE e.tenant_id = $1 AND e.type = 'job.purged'

-- name: seal_floor
-- Below this id nothing is left of a table's history: it was detached.
SELECT history_floor(ARRAY[$1::text])
