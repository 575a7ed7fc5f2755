-- Seals: everything that was told, in one gapless, hash-chained order for each tenant.
--
-- Whoever inserts something that must be told also puts its address into the outbox, in the same
-- transaction. The sealer takes what the outbox holds, gives each its position in its tenant, and
-- writes one seal for a whole batch. Nothing rests on transaction ids or snapshots: what is
-- committed is in the outbox, and what is taken from it is sealed in the same commit.

-- The addresses of what is committed and not sealed yet. `time` is when the inserting statement
-- began: whoever changes a subject holds its lock, so of two rows of one subject the later one has
-- the later time.
CREATE TABLE outbox (
    bucket    smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id integer NOT NULL,
    time      timestamptz NOT NULL DEFAULT clock(),
    subject   uuid NOT NULL,
    event_id  uuid NOT NULL,
    type      text NOT NULL,
    PRIMARY KEY (bucket, time, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);

-- Who seals a bucket holds its row until the commit, so that two batches of one subject are never
-- sealed by two nodes at once.
CREATE TABLE outbox_lock (
    bucket smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63)
);
INSERT INTO outbox_lock SELECT generate_series(0, 63);
GRANT SELECT, UPDATE ON outbox_lock TO postdate_writer;

-- The bucket in which a tenant's own rows live.
CREATE FUNCTION tenant_bucket(tenant_id integer) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT (tenant_id % 64)::smallint';

-- The end of each tenant's chain: how many of its events are sealed, and the last hash.
CREATE TABLE chain (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    position  bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
    hash      bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
              CHECK (octet_length(hash) = 32),
    PRIMARY KEY (bucket, tenant_id)
) WITH (fillfactor = 50);

-- One seal: the events from `position` on. Of the i-th event, `types[kinds[i]]` is the type,
-- `subjects[i]` what it is about, `events[i]` its id (NULL where that is the subject's own), and
-- bytes 32 * i of `digests` the digest of all it says. `hash` covers all this and `previous`.
CREATE TABLE seal (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    seal_id   uuid NOT NULL,
    position  bigint NOT NULL CHECK (position > 0),
    -- No earlier than anything in it, whatever a clock does.
    sealed_at timestamptz NOT NULL,
    -- Whether it holds a decision of somebody, not only the course of work.
    decision  boolean NOT NULL,
    types     text[] NOT NULL,
    kinds     smallint[] NOT NULL,
    subjects  uuid[] NOT NULL,
    events    uuid[] NOT NULL,
    digests   bytea NOT NULL,
    previous  bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash      bytea NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (bucket, tenant_id, position, seal_id),
    CHECK (cardinality(kinds) > 0 AND cardinality(subjects) = cardinality(kinds)
           AND cardinality(events) = cardinality(kinds)
           AND octet_length(digests) = 32 * cardinality(kinds))
) PARTITION BY RANGE (seal_id);
-- Random bytes do not get smaller: trying costs more than it saves.
ALTER TABLE seal ALTER subjects SET STORAGE EXTERNAL, ALTER events SET STORAGE EXTERNAL,
    ALTER digests SET STORAGE EXTERNAL;
CREATE INDEX seal_decision ON seal (bucket, tenant_id, position) WHERE decision;
CREATE INDEX seal_time ON seal (bucket, tenant_id, sealed_at);

SELECT table_guard(t, fact => false) FROM unnest('{outbox,chain}'::regclass[]) AS t;
SELECT table_guard('seal', fact => true);

-- The digest of everything an event says, the same whatever a session's settings are.
CREATE FUNCTION event_digest(e event) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT sha256(convert_to(ROW(e.bucket, e.tenant_id, e.subject, e.event_id,
                                 encode(timestamptz_send(e.time), 'hex'), e.type, e.actor,
                                 e.data)::text, 'UTF8'))
$$;

-- The data of an event as it is shown. The end of a payment is the busiest event and is stored
-- without any: its id is that of the transfer, and the payment says the rest.
CREATE FUNCTION event_shown(e event) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(e.data, (
        SELECT jsonb_build_object('transfer_id', e.event_id, 'from_account_id', p.from_account,
                                  'to_account_id', p.to_account, 'amount', p.amount)
          FROM payment p
         WHERE e.type = 'payment.completed' AND p.bucket = e.bucket
           AND p.tenant_id = e.tenant_id AND p.payment_id = e.subject))
$$;

-- Take what the outbox holds of the buckets that nobody else is sealing, the oldest of each first,
-- with the digests of what it tells of. The lock comes before the look: a snapshot from before it
-- could miss what the last sealer has left. Below `low` only dead rows remain.
CREATE FUNCTION outbox_take(low timestamptz, per_bucket integer)
    RETURNS TABLE (tenant_id integer, "time" timestamptz, subject uuid, event_id uuid, type text,
                   digest bytea)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    one smallint;
BEGIN
    FOR one IN SELECT l.bucket FROM outbox_lock l
                WHERE EXISTS (SELECT FROM outbox o WHERE o.bucket = l.bucket AND o.time >= low)
                ORDER BY l.bucket FOR NO KEY UPDATE SKIP LOCKED LOOP
        RETURN QUERY
            WITH taken AS (
                DELETE FROM outbox o
                 USING (SELECT head.time, head.event_id FROM outbox head
                         WHERE head.bucket = one AND head.time >= low
                         ORDER BY head.time, head.event_id LIMIT per_bucket) AS head
                 WHERE o.bucket = one AND o.time = head.time AND o.event_id = head.event_id
                RETURNING o.tenant_id, o.time, o.subject, o.event_id, o.type)
            SELECT taken.tenant_id, taken.time, taken.subject, taken.event_id, taken.type, e.digest
              FROM taken LEFT JOIN LATERAL (
                   SELECT event_digest(e) AS digest FROM event e
                    WHERE e.bucket = one AND e.subject = taken.subject
                      AND e.event_id = taken.event_id OFFSET 0) AS e ON true;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION outbox_take FROM PUBLIC;
GRANT EXECUTE ON FUNCTION outbox_take TO postdate_writer;

-- The position of an event in its tenant's chain; NULL while it is not sealed. It is in one of the
-- first seals made after it: only one whose transaction took minutes is in a later one than the
-- thousandth.
CREATE FUNCTION seal_find(of_tenant integer, of_subject uuid, of_event uuid, since timestamptz)
    RETURNS bigint LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT near.position + one.place - 1
      FROM (SELECT s.position, s.subjects, s.events FROM seal s
             WHERE s.bucket = tenant_bucket(of_tenant) AND s.tenant_id = of_tenant
               AND s.sealed_at >= since
             ORDER BY s.sealed_at, s.position LIMIT 1000) AS near
     CROSS JOIN LATERAL unnest(near.subjects, near.events)
                WITH ORDINALITY AS one (subject, event_id, place)
     WHERE one.subject = of_subject AND coalesce(one.event_id, one.subject) = of_event
     LIMIT 1
$$;
REVOKE EXECUTE ON FUNCTION seal_find FROM PUBLIC;
GRANT EXECUTE ON FUNCTION seal_find TO postdate_reader, postdate_writer;
