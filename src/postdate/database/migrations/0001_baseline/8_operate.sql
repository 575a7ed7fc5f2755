-- For the operator: nodes, detached history, when the books were checked, where this was born.
-- None of it belongs to a tenant.

CREATE TABLE node (
    node_id    uuid PRIMARY KEY,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    version    text NOT NULL,
    -- Ids of the keys that it was given, as secret_key names them.
    secret_keys bigint[] NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock(),
    seen_at    timestamptz NOT NULL DEFAULT clock()
);
-- Nodes that are gone are kept for a week: a query for the living does not read them all.
CREATE INDEX node_seen ON node (seen_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON node TO postdate_writer;
-- A reader may count the live nodes of a role, and the nodes that have a key; their names are the
-- operators'.
GRANT SELECT (roles, seen_at, started_at, secret_keys) ON node TO postdate_reader;

-- The last time of the server's clock that a node believed; one row. A node that starts compares
-- the clock with it, and with its own, before it believes that something is due. A leap is believed
-- only when a person has confirmed the clock since, which is counted, or when a node that recorded
-- this row had watched the clock since before the leap. `doubt` says why nodes do not believe it.
CREATE TABLE clock_watch (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    at            timestamptz NOT NULL DEFAULT machine_clock(),
    watched_since timestamptz NOT NULL DEFAULT machine_clock(),
    confirmations bigint NOT NULL DEFAULT 0,
    doubt         text
);
INSERT INTO clock_watch DEFAULT VALUES;
GRANT SELECT ON clock_watch TO postdate_reader;
GRANT SELECT, UPDATE ON clock_watch TO postdate_writer;

-- What of the history has been detached, and from where on it is whole. Belongs to no tenant.
CREATE TABLE history (
    partition   text PRIMARY KEY,
    parent      text NOT NULL,
    from_id     uuid NOT NULL,
    to_id       uuid NOT NULL,
    detached_at timestamptz NOT NULL DEFAULT clock(),
    dropped_at  timestamptz
);
GRANT SELECT ON history TO postdate_reader, postdate_writer;

-- Every weekly partition that is attached, the oldest first.
CREATE VIEW history_partition AS
    SELECT c.oid, c.relname::text AS partition, p.relname::text AS parent,
           uuid_floor(monday) AS from_id, uuid_floor(monday + interval '7 days') AS to_id,
           monday, monday + interval '7 days' AS until
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_class p ON p.oid = i.inhparent AND p.relkind = 'p'
     CROSS JOIN LATERAL (
           SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC'
                  AS monday) AS week
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relname ~ '_\d{8}$'
     ORDER BY c.relname;
GRANT SELECT ON history_partition TO postdate_writer;

-- When the books were last checked as a whole, and what that found: shown by metrics and alerts.
CREATE TABLE audit_run (
    name        text PRIMARY KEY CHECK (name IN ('prove', 'reconcile', 'round', 'verify')),
    finished_at timestamptz NOT NULL DEFAULT clock(),
    seconds     double precision NOT NULL CHECK (seconds >= 0),
    findings    integer NOT NULL CHECK (findings >= 0)
);
GRANT SELECT ON audit_run TO postdate_reader;
GRANT SELECT, INSERT, UPDATE ON audit_run TO postdate_writer;

-- Which server, database and table these rows were first written by: a dump that was restored
-- elsewhere brings this row along, and tells by it that it was.
CREATE TABLE birthplace (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    place    text NOT NULL
);
INSERT INTO birthplace (place) VALUES (birthplace_now());

-- Change sets: changes that are made together, step by step, and undone in the same way. `steps`
-- says of each what there was before it and whether it is done, so that a node that dies in between
-- is followed by one that goes on. A process that works on a set holds it until `held_until`, with
-- a `token` of its own: one whose time is over records nothing any more.
CREATE TABLE change_set (
    bucket        smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id     integer NOT NULL REFERENCES tenant,
    change_set_id uuid NOT NULL,
    status        text NOT NULL DEFAULT 'DRAFT'
                  CHECK (status IN ('DRAFT', 'APPLYING', 'APPLIED', 'UNDOING', 'UNDONE')),
    note          text,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock(),
    changed_at    timestamptz NOT NULL DEFAULT clock(),
    held_until    timestamptz,
    token         integer NOT NULL DEFAULT 0,
    changes       jsonb NOT NULL,
    -- What lists show of the steps: counts in the place of up to 10,000 items.
    summary       jsonb NOT NULL,
    steps         jsonb NOT NULL,
    PRIMARY KEY (bucket, tenant_id, change_set_id)
);
CREATE INDEX change_set_tenant ON change_set (tenant_id, change_set_id);
CREATE INDEX change_set_begun ON change_set (tenant_id)
    WHERE status IN ('APPLYING', 'UNDOING');
SELECT table_guard('change_set', fact => false);

-- Bulk actions: the same done to many things, piece by piece, by whichever node has a turn. The
-- items are fixed when a person confirms them. `actor` is what the key was allowed then; a node
-- that works on one holds it until `held_until`, with a `token` of its own.
CREATE TABLE bulk_action (
    bucket         smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id      integer NOT NULL REFERENCES tenant,
    bulk_action_id uuid NOT NULL,
    operation      text NOT NULL CHECK (operation IN ('cancel_jobs', 'reschedule_jobs',
                       'redrive_dead_letters', 'pause_schedule', 'resume_schedule')),
    terms          jsonb NOT NULL,
    actor          jsonb NOT NULL,
    -- From where the request came that confirmed it: its items' events say so too.
    origin         jsonb,
    created_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT server_clock(),
    changed_at     timestamptz NOT NULL DEFAULT server_clock(),
    starts_at      timestamptz NOT NULL,
    next_at        timestamptz NOT NULL,
    ended_at       timestamptz,
    stopped_by     text CHECK (stopped_by IS NULL OR ended_at IS NOT NULL),
    waiting_for    text,
    per_second     double precision CHECK (per_second > 0),
    total          integer NOT NULL CHECK (total > 0),
    position       integer NOT NULL DEFAULT 0 CHECK (position BETWEEN 0 AND total),
    done           integer NOT NULL DEFAULT 0 CHECK (done BETWEEN 0 AND total),
    skipped        jsonb NOT NULL DEFAULT '{}',
    held_until     timestamptz,
    token          integer NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, tenant_id, bulk_action_id)
);
CREATE INDEX bulk_action_tenant ON bulk_action (tenant_id, bulk_action_id);
CREATE INDEX bulk_action_open ON bulk_action (next_at) WHERE ended_at IS NULL;
SELECT table_guard('bulk_action', fact => false);

-- An item of a bulk action. Its outcome is written in the transaction that changes it.
CREATE TABLE bulk_item (
    bucket         smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id      integer NOT NULL,
    bulk_action_id uuid NOT NULL,
    position       integer NOT NULL CHECK (position >= 0),
    item_id        uuid NOT NULL,
    seen           text NOT NULL,
    outcome        text,
    new_job_id     uuid,
    PRIMARY KEY (bucket, tenant_id, bulk_action_id, position),
    FOREIGN KEY (bucket, tenant_id, bulk_action_id) REFERENCES bulk_action ON DELETE CASCADE
);
SELECT table_guard('bulk_item', fact => false);

-- Whose turn it is in the round of proofs; one row. All nodes take their turns from it.
CREATE TABLE proof_round (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    bucket   smallint NOT NULL DEFAULT 63 CHECK (bucket BETWEEN 0 AND 63),
    -- Counts the rounds: each goes over another share of the facts that are older.
    round    bigint NOT NULL DEFAULT 0,
    began_at timestamptz NOT NULL DEFAULT clock(),
    taken_at timestamptz NOT NULL DEFAULT clock()
);
INSERT INTO proof_round DEFAULT VALUES;
GRANT SELECT, UPDATE ON proof_round TO postdate_writer;

-- The channel on which nodes send each other hints. Every login may send on any channel that it
-- knows by name, so only the nodes can read the name of this one.
CREATE TABLE wakeup_channel (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    name text NOT NULL DEFAULT 'postdate_' || replace(gen_random_uuid()::text, '-', '')
);
INSERT INTO wakeup_channel DEFAULT VALUES;
GRANT SELECT ON wakeup_channel TO postdate_writer;
