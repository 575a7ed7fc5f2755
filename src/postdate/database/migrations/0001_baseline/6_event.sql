-- Seals: everything that was told, in one gapless, hash-chained order for each tenant.
--
-- What must be told is inserted together with its address in the outbox, in the same
-- transaction. The sealer takes what the outbox holds, gives each its position in its tenant, and
-- writes one seal for a whole batch. Nothing rests on transaction ids or snapshots: what is
-- committed is in the outbox, and what is taken from it is sealed in the same commit.

-- What changed, for whom and by whom.
CREATE TABLE event (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    subject   uuid NOT NULL,
    event_id  uuid NOT NULL,
    time      timestamptz NOT NULL DEFAULT clock(),
    type      text NOT NULL,
    actor     text,
    data      jsonb,
    -- The digest of the row that it tells of, after the change; NULL where it tells of no such row.
    state     bytea CHECK (octet_length(state) = 32),
    PRIMARY KEY (bucket, subject, event_id)
) PARTITION BY RANGE (event_id);
CREATE INDEX event_state ON event (bucket, tenant_id, subject, time) WHERE state IS NOT NULL;

-- The addresses of what is committed and not sealed yet: one row for all that a statement tells of
-- a tenant in a bucket, in the order of the events' ids. `time` is when the inserting statement
-- began, by the server's clock: a change of a subject holds its lock, so of two rows of one
-- subject the later one has the later time. Where one word for all says it, arrays are short.
CREATE TABLE outbox (
    bucket    smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id integer NOT NULL,
    time      timestamptz NOT NULL DEFAULT server_clock(),
    -- One for each event, or one for all.
    types     text[] NOT NULL,
    subjects  uuid[] NOT NULL CHECK (cardinality(subjects) > 0),
    -- NULL where every event has the id of its subject.
    events    uuid[],
    -- 32 bytes for each event, over everything that it tells, as functions/fact.sql computes them.
    digests   bytea NOT NULL,
    CHECK (cardinality(types) IN (1, cardinality(subjects))
           AND cardinality(events) = cardinality(subjects)
           AND octet_length(digests) = 32 * cardinality(subjects)),
    -- One row that cannot be read would keep every tenant's events from being sealed.
    CHECK (time >= timestamptz '1970-01-01 00:00Z' AND time < timestamptz '3000-01-01 00:00Z'
           AND array_position(types, NULL) IS NULL AND array_position(subjects, NULL) IS NULL
           AND array_ndims(events) = 1)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, toast_tuple_target = 8160);
-- Random bytes do not get smaller, and a row that fits on a page stays there: it lives a second.
ALTER TABLE outbox ALTER subjects SET STORAGE EXTERNAL, ALTER events SET STORAGE EXTERNAL,
    ALTER digests SET STORAGE EXTERNAL;
-- No query filters by them, and to count what arrays hold takes long.
ALTER TABLE outbox ALTER types SET STATISTICS 0, ALTER subjects SET STATISTICS 0,
    ALTER events SET STATISTICS 0, ALTER digests SET STATISTICS 0;

-- No key: an address lives for a second, and what it leads to has one. In an index of 16 bytes an
-- entry pages are filled behind the rising time of each bucket; with the id in it they were split
-- in halves, which wrote every entry to the log twice.
CREATE INDEX outbox_time ON outbox (bucket, time);

-- Who seals a bucket holds its row until the commit, so that two batches of one subject are never
-- sealed by two nodes at once.
CREATE TABLE outbox_lock (
    bucket smallint PRIMARY KEY CHECK (bucket BETWEEN 0 AND 63)
);
INSERT INTO outbox_lock SELECT generate_series(0, 63);
GRANT SELECT, UPDATE ON outbox_lock TO postdate_writer;
GRANT SELECT ON outbox_lock TO postdate_reader;

-- The end of each tenant's chain: how many of its events are sealed, and the last hash.
CREATE TABLE chain (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    position  bigint NOT NULL DEFAULT 0 CHECK (position >= 0),
    hash      bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex')
              CHECK (octet_length(hash) = 32),
    PRIMARY KEY (bucket, tenant_id)
) WITH (fillfactor = 50);

-- Where the seals of a tenant were detached: the end of its chain as it was then, which the seals
-- that are left must continue.
CREATE TABLE chain_start (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    position  bigint NOT NULL CHECK (position > 0),
    hash      bytea NOT NULL CHECK (octet_length(hash) = 32),
    PRIMARY KEY (bucket, tenant_id)
);

-- How far each chain is proved: `position` from its beginning on, and `walked` by the round under
-- way, which goes over the proved part once more.
CREATE TABLE chain_proof (
    bucket      smallint NOT NULL,
    tenant_id   integer NOT NULL,
    position    bigint NOT NULL CHECK (position >= 0),
    hash        bytea NOT NULL CHECK (octet_length(hash) = 32),
    walked      bigint NOT NULL CHECK (walked >= 0),
    walked_hash bytea NOT NULL CHECK (octet_length(walked_hash) = 32),
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
    -- Whether it holds a decision of a person, not only the course of work.
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

SELECT table_guard('outbox', fact => false);
SELECT table_guard('chain', fact => false);
SELECT table_guard('chain_start', fact => false);
SELECT table_guard('chain_proof', fact => false);
SELECT table_guard('event', fact => true);
SELECT table_guard('seal', fact => true);

-- Subscriptions: who is sent which events, and how far that has come.
--
-- A subscription with nothing to send has no timer, so it costs nothing. The sealer makes one for
-- each subscription that a new event may be for; delivery removes it when it has caught up.
CREATE TABLE subscription (
    bucket          smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id       integer NOT NULL REFERENCES tenant,
    subscription_id uuid NOT NULL,
    destination     jsonb NOT NULL,
    types           text[] NOT NULL CHECK (cardinality(types) > 0),
    -- The types once more, as LIKE wants them.
    patterns        text[] NOT NULL,
    accounts        text[],
    -- The tenant's events up to here are delivered, or were not asked for.
    position        bigint NOT NULL CHECK (position >= 0),
    -- Raised by a person's change: a delivery that was under way then no longer moves anything.
    version         integer NOT NULL DEFAULT 1,
    failures        integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since   timestamptz,
    error           text,
    delivered_at    timestamptz,
    paused_at       timestamptz,
    paused_note     text,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, tenant_id, subscription_id),
    CHECK ((failures = 0) = (failing_since IS NULL)),
    CHECK ((paused_at IS NULL) = (paused_note IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX subscription_tenant ON subscription (tenant_id, subscription_id);

-- Activity: what a tenant had accepted, executed and failed in each ten seconds, and how late.
--
-- The publisher counts while it seals, in the same transaction, so that the numbers are those of
-- the whole cluster and survive a restart; nodes add how late they began. A page reads some hundred
-- narrow rows of one tenant, however many jobs there are. Two hours are kept.
CREATE TABLE activity (
    tenant_id         integer NOT NULL,
    slot              timestamptz NOT NULL,
    jobs_accepted     integer NOT NULL DEFAULT 0,
    payments_accepted integer NOT NULL DEFAULT 0,
    jobs_executed     integer NOT NULL DEFAULT 0,
    payments_executed integer NOT NULL DEFAULT 0,
    jobs_failed       integer NOT NULL DEFAULT 0,
    payments_failed   integer NOT NULL DEFAULT 0,
    -- Histograms: how many began so late, by the bounds of monitor/spec/activity.py.
    jobs_late         integer[] NOT NULL DEFAULT '{}',
    payments_late     integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX activity_slot ON activity (slot);

SELECT table_guard('subscription', fact => false);
SELECT table_guard('activity', fact => false);
