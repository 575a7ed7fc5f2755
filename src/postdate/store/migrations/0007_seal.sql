-- Seals: the committed events of each bucket in one gapless, hash-chained order.

-- Where each bucket's chain stands: its last link, and the snapshot up to which everything visible
-- has been sealed. `upto` and `pending` are that snapshot, in the numbers that event.xid carries.
CREATE TABLE event_chain (
    bucket     smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63),
    seq        bigint NOT NULL DEFAULT 0 CHECK (seq >= 0),
    hash       bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
               CHECK (octet_length(hash) = 32),
    upto       xid8 NOT NULL DEFAULT '0',
    pending    xid8[] NOT NULL DEFAULT '{}',
    -- What event.xid is ahead of this server's own transaction ids: see seal_epoch.
    xid_offset bigint NOT NULL DEFAULT 0 CHECK (xid_offset >= 0),
    sealed_at  timestamptz
) WITH (fillfactor = 50);
INSERT INTO event_chain (bucket) SELECT generate_series(0, 63);
GRANT SELECT, UPDATE ON event_chain TO postdate_writer;

-- How many events each tenant has had sealed: the last position of its stream.
CREATE TABLE event_position (
    tenant_id integer PRIMARY KEY,
    position  bigint NOT NULL CHECK (position >= 0)
) WITH (fillfactor = 50);

-- One link. `seq` counts in the bucket, `position` in the tenant, both from 1 and without gaps.
-- The primary key is the guard that an event is sealed once.
CREATE TABLE event_seal (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    seq       bigint NOT NULL CHECK (seq > 0),
    position  bigint NOT NULL CHECK (position > 0),
    subject   uuid NOT NULL,
    event_id  uuid NOT NULL,
    type      text NOT NULL,
    hash      bytea NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (bucket, event_id)
) PARTITION BY RANGE (event_id);
CREATE INDEX event_seal_seq ON event_seal (bucket, seq);
CREATE INDEX event_seal_position ON event_seal (tenant_id, position);

SELECT table_guard('event_position', fact => false);
SELECT table_guard('event_seal', fact => true);

-- Lock the chains that nobody else is sealing, bucket by bucket in one round trip, and only then
-- look what is committed: a snapshot from before the lock could lie before that of the last sealer.
CREATE FUNCTION seal_lock(buckets smallint[])
    RETURNS TABLE (bucket smallint, seq bigint, hash bytea, upto xid8, pending xid8[],
                   next_upto xid8, next_pending xid8[], looked_at timestamptz)
    LANGUAGE plpgsql VOLATILE SET search_path FROM CURRENT AS $$
DECLARE
    one smallint;
    mine smallint[] := '{}';
BEGIN
    FOREACH one IN ARRAY buckets LOOP
        PERFORM FROM event_chain c WHERE c.bucket = one FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            mine := mine || one;
        END IF;
    END LOOP;
    RETURN QUERY
        WITH seen AS MATERIALIZED (SELECT pg_current_snapshot() AS snapshot)
        SELECT c.bucket, c.seq, c.hash, c.upto, c.pending,
               xid_shift(pg_snapshot_xmax(seen.snapshot), c.xid_offset),
               ARRAY(SELECT xid_shift(x, c.xid_offset) FROM pg_snapshot_xip(seen.snapshot) AS x),
               clock()
          FROM event_chain c, seen WHERE c.bucket = ANY (mine) ORDER BY c.bucket;
END $$;

CREATE FUNCTION xid_shift(xid xid8, xid_offset bigint) RETURNS xid8
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT (xid::text::bigint + xid_offset)::text::xid8$$;

-- A dump restored into another server brings event.xid along, but the new server counts its own
-- transactions from the beginning. From then on new events are numbered from where the old ones
-- end, so that nothing is taken for sealed and nothing is sealed twice. The owner calls this before
-- any node writes; where nothing was restored it changes nothing. Returns whether it did.
CREATE FUNCTION seal_epoch() RETURNS boolean
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    own bigint := pg_current_xact_id()::text::bigint;
    newest bigint := (
        SELECT max(greatest(c.upto::text::bigint - 1, head.xid))
          FROM event_chain c LEFT JOIN LATERAL (
               SELECT e.xid::text::bigint AS xid FROM event e WHERE e.bucket = c.bucket
                ORDER BY e.xid DESC LIMIT 1) AS head ON true);
BEGIN
    IF newest < own + (SELECT max(xid_offset) FROM event_chain) THEN
        RETURN false;
    END IF;
    UPDATE event_chain SET xid_offset = newest + 1 - own;
    EXECUTE format('ALTER TABLE event ALTER COLUMN xid '
                   'SET DEFAULT xid_shift(pg_current_xact_id(), %s)', newest + 1 - own);
    RETURN true;
END $$;

REVOKE EXECUTE ON FUNCTION seal_lock, seal_epoch FROM PUBLIC;
GRANT EXECUTE ON FUNCTION seal_lock TO postdate_writer;
