-- Seals: committed events in one order. A window is what became visible between two snapshots.

-- name: seal_news
-- The buckets that have something to seal: one probe for each partition of the events.
SELECT c.bucket FROM event_chain c
 WHERE EXISTS (SELECT FROM event e WHERE e.bucket = c.bucket AND e.xid >= c.upto)
    OR EXISTS (SELECT FROM unnest(c.pending) AS p (xid)
                 JOIN event e ON e.bucket = c.bucket AND e.xid = p.xid)
 ORDER BY c.bucket

-- name: seal_snapshot
-- Changes whenever a transaction that wrote anything has ended.
SELECT pg_current_snapshot()::text

-- name: seal_lock
SELECT bucket, seq, hash, upto::text, pending::text[], next_upto::text, next_pending::text[],
       looked_at
  FROM seal_lock($1)

-- name: seal_read
-- The window of each bucket: not visible in its last snapshot, visible in its next. Transactions
-- that were pending then are looked up one by one, so that a long one costs nothing while it runs.
-- Ordered by the time of the inserting statement: whoever changes a subject holds its lock, so of
-- two events of one subject the later one was inserted later, whatever their transaction ids say.
SELECT e.bucket, e.tenant_id, e.subject, e.event_id, e.time, e.type, e.actor, e.data::text AS data
  FROM (SELECT e.* FROM unnest($1::smallint[], $2::text[]::xid8[], $3::text[]::xid8[])
                        AS w (bucket, upto, next_upto)
          JOIN event e ON e.bucket = w.bucket AND e.xid >= w.upto AND e.xid < w.next_upto
         UNION ALL
        SELECT e.* FROM unnest($4::smallint[], $5::text[]::xid8[]) AS p (bucket, xid)
          JOIN event e ON e.bucket = p.bucket AND e.xid = p.xid) AS e
 WHERE e.xid <> ALL ($6::text[]::xid8[])
 ORDER BY e.time, e.event_id

-- name: seal_count
-- How many events of each tenant are in the same window.
SELECT e.tenant_id, count(*) AS events
  FROM (SELECT e.tenant_id, e.xid
          FROM unnest($1::smallint[], $2::text[]::xid8[], $3::text[]::xid8[])
               AS w (bucket, upto, next_upto)
          JOIN event e ON e.bucket = w.bucket AND e.xid >= w.upto AND e.xid < w.next_upto
         UNION ALL
        SELECT e.tenant_id, e.xid
          FROM unnest($4::smallint[], $5::text[]::xid8[]) AS p (bucket, xid)
          JOIN event e ON e.bucket = p.bucket AND e.xid = p.xid) AS e
 WHERE e.xid <> ALL ($6::text[]::xid8[])
 GROUP BY e.tenant_id

-- name: seal_advance
-- Take the next positions of each tenant. The rows are locked in the order of the tenants and stay
-- so until the commit: positions become visible in their order, and two sealers never deadlock.
INSERT INTO event_position AS p (tenant_id, position)
SELECT tenant_id, events FROM unnest($1::integer[], $2::bigint[]) AS taken (tenant_id, events)
 ORDER BY tenant_id
ON CONFLICT (tenant_id) DO UPDATE SET position = p.position + excluded.position
RETURNING tenant_id, position

-- name: seal_insert
INSERT INTO event_seal (bucket, tenant_id, seq, position, subject, event_id, type, hash)
SELECT * FROM unnest($1::smallint[], $2::integer[], $3::bigint[], $4::bigint[], $5::uuid[],
                     $6::uuid[], $7::text[], $8::bytea[])

-- name: seal_move
UPDATE event_chain c SET seq = m.seq, hash = m.hash, upto = m.upto,
       pending = $5::text[]::xid8[], sealed_at = clock()
  FROM unnest($1::smallint[], $2::bigint[], $3::bytea[], $4::text[]::xid8[])
       AS m (bucket, seq, hash, upto)
 WHERE c.bucket = m.bucket

-- name: seal_heads
-- The last link of every chain.
SELECT bucket, seq, hash FROM event_chain ORDER BY bucket

-- name: seal_now
SELECT clock()

-- name: seal_position
-- How many events of a tenant are sealed.
SELECT position FROM event_position WHERE tenant_id = $1

-- name: seal_positions
-- How many events of these tenants are sealed.
SELECT tenant_id, position FROM event_position WHERE tenant_id = ANY ($1)

-- name: seal_page
-- A tenant's events between two positions, by type and by the accounts that they are about. The
-- events are looked up one by one: left to itself, the planner reads a whole partition for them
-- as soon as it has statistics, for it does not see that the first few positions are enough.
WITH s AS MATERIALIZED (
    SELECT bucket, tenant_id, position, event_id, subject, type FROM event_seal
     WHERE tenant_id = $1 AND position > $2 AND position <= $3 AND type LIKE ANY ($4::text[])
     ORDER BY position LIMIT CASE WHEN $5::text[] IS NULL THEN $6::bigint END)
SELECT s.position, s.event_id, s.subject, s.type, e.time, e.actor, e.data::text AS data
  FROM s CROSS JOIN LATERAL (
       SELECT e.time, e.actor, e.data FROM event e
        WHERE e.bucket = s.bucket AND e.subject = s.subject AND e.event_id = s.event_id
       OFFSET 0) AS e
 WHERE $5 IS NULL OR e.data ->> 'account_id' = ANY ($5) OR EXISTS (
       SELECT FROM payment p
        WHERE p.bucket = s.bucket AND p.tenant_id = s.tenant_id AND p.payment_id = s.subject
          AND (p.from_account = ANY ($5) OR p.to_account = ANY ($5)))
 ORDER BY s.position LIMIT $6

-- name: seal_traceparents
-- What follows the jobs and payments that events tell of.
SELECT wanted.subject, coalesce(j.traceparent, p.traceparent) AS traceparent
  FROM unnest($2::smallint[], $3::uuid[]) AS wanted (bucket, subject)
  LEFT JOIN job j ON j.bucket = wanted.bucket AND j.tenant_id = $1 AND j.job_id = wanted.subject
  LEFT JOIN payment p ON p.bucket = wanted.bucket AND p.tenant_id = $1
       AND p.payment_id = wanted.subject
 WHERE j.traceparent IS NOT NULL OR p.traceparent IS NOT NULL

-- name: seal_page_back
-- The newest first, between two positions.
WITH s AS MATERIALIZED (
    SELECT bucket, position, event_id, subject, type FROM event_seal
     WHERE tenant_id = $1 AND position > $2 AND position < $3 AND type LIKE ANY ($4::text[])
     ORDER BY position DESC LIMIT $5)
SELECT s.position, s.event_id, s.subject, s.type, e.time, e.actor, e.data::text AS data
  FROM s CROSS JOIN LATERAL (
       SELECT e.time, e.actor, e.data FROM event e
        WHERE e.bucket = s.bucket AND e.subject = s.subject AND e.event_id = s.event_id
       OFFSET 0) AS e
 ORDER BY s.position DESC

-- name: seal_page_decided
-- Decisions, the newest first: an index of their own knows them. The types that it leaves out are
-- named here as they are there, or the planner would not see that it may be used.
WITH s AS MATERIALIZED (
    SELECT bucket, position, event_id, subject, type FROM event_seal
     WHERE tenant_id = $1 AND position < $2 AND type LIKE ANY ($3::text[])
       AND type NOT IN ('job.accepted', 'job.completed', 'job.failed', 'job.retried', 'job.unknown',
                        'payment.scheduled', 'payment.completed', 'payment.failed',
                        'payment.retried', 'payment.dead_lettered')
     ORDER BY position DESC LIMIT $4)
SELECT s.position, s.event_id, s.subject, s.type, e.time, e.actor, e.data::text AS data
  FROM s CROSS JOIN LATERAL (
       SELECT e.time, e.actor, e.data FROM event e
        WHERE e.bucket = s.bucket AND e.subject = s.subject AND e.event_id = s.event_id
       OFFSET 0) AS e
 ORDER BY s.position DESC

-- name: seal_page_of_subject
-- The same for one subject: its events are few, and found by its key.
SELECT s.position, s.event_id, s.subject, s.type, e.time, e.actor, e.data::text AS data
  FROM event e
  JOIN event_seal s ON s.bucket = e.bucket AND s.event_id = e.event_id
 WHERE e.bucket = $7 AND e.subject = $8 AND e.tenant_id = $1
   AND s.position > $2 AND s.position <= $3 AND s.type LIKE ANY ($4::text[])
   AND ($5::text[] IS NULL OR e.data ->> 'account_id' = ANY ($5) OR EXISTS (
        SELECT FROM payment p
         WHERE p.bucket = s.bucket AND p.tenant_id = s.tenant_id AND p.payment_id = s.subject
           AND (p.from_account = ANY ($5) OR p.to_account = ANY ($5))))
 ORDER BY s.position LIMIT $6

-- name: seal_links
-- The links of a bucket with what their events say now.
SELECT s.bucket, s.seq, s.tenant_id, s.position, s.subject, s.event_id, s.type, s.hash,
       e.tenant_id AS event_tenant_id, e.type AS event_type, e.time, e.actor, e.data::text AS data
  FROM event_seal s
  LEFT JOIN event e ON e.bucket = s.bucket AND e.subject = s.subject AND e.event_id = s.event_id
 WHERE s.bucket = $1 AND s.seq > $2 ORDER BY s.seq LIMIT $3

-- name: seal_unsealed
-- An event that should have been sealed and was not: one that somebody slipped in.
SELECT e.event_id
  FROM event_chain c
  JOIN event e ON e.bucket = c.bucket AND e.xid < c.upto AND e.xid <> ALL (c.pending)
 WHERE c.bucket = $1 AND NOT EXISTS (
       SELECT FROM event_seal s WHERE s.bucket = e.bucket AND s.event_id = e.event_id)
 LIMIT 1
