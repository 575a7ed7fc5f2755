-- What will happen (timer, by lane), what became of it (attempt, outcome), and what bounds it
-- (permits).

-- A lane is a tenant's queue of jobs. Ids below 16 are the system's own lanes (payments, schedules,
-- deliveries of events; below zero those of tenants in test mode), which have no row here.
-- `width` is how many of the buckets its jobs use.
-- A name has several rows, which share everything but the id. Our own handlers take from one
-- (push), workers that ask over HTTP from another (pull), so that neither walks past the other's.
-- Each priority has a row of its own, and so have jobs with a key: the first due timer of each is
-- at hand, and a job without either costs nothing more.
CREATE TABLE lane (
    lane_id         integer GENERATED ALWAYS AS IDENTITY (START WITH 16) PRIMARY KEY,
    tenant_id       integer NOT NULL REFERENCES tenant,
    name            text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
    kind            text NOT NULL DEFAULT 'push' CHECK (kind IN ('push', 'pull')),
    weight          smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    width           smallint NOT NULL DEFAULT 8 CHECK (width BETWEEN 1 AND 64),
    priority        smallint NOT NULL DEFAULT 5 CHECK (priority BETWEEN 0 AND 9),
    keyed           boolean NOT NULL DEFAULT false,
    max_running     integer CHECK (max_running > 0),
    rate_per_second real CHECK (rate_per_second > 0),
    -- What holds for each key: the fields of `PerKey` (lane/spec.py). NULL: keys mean nothing.
    per_key         jsonb,
    paused_at       timestamptz,
    paused_note     text,
    paused_by       text,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    changed_at      timestamptz NOT NULL DEFAULT server_clock(),
    -- Of a tenant in test mode: only its test clock claims here.
    test            boolean NOT NULL DEFAULT false,
    UNIQUE (tenant_id, name, kind, priority, keyed)
);
-- Every node asks every other second which lanes have changed.
CREATE INDEX lane_changed ON lane (changed_at);
-- Few of many lanes are paused; they are counted now and then.
CREATE INDEX lane_paused ON lane (lane_id) WHERE paused_at IS NOT NULL;

-- What is read of a lane: the fields of `Lane` (lane/store/lane.py) in their order. The columns are
-- listed here and nowhere else.
CREATE VIEW lane_view WITH (security_invoker = true) AS
SELECT lane_id, tenant_id, name, kind, weight, width, max_running, rate_per_second, paused_at,
       paused_note, paused_by, created_at, changed_at, test, priority, keyed, per_key
  FROM lane;
GRANT SELECT ON lane_view TO postdate_reader, postdate_writer;

-- Everything that must happen at an instant is one narrow row. A claimed timer is a lease: due_at
-- is when the lease ends, token fences it (of a payment: how often it was tried), ready_at is when
-- this execution was due, attempt how many attempts at the job are written down. 'infinity' waits
-- for a person. The columns stand so that none is padded.
CREATE TABLE timer (
    bucket     smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    attempt    smallint NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    tenant_id  integer NOT NULL,
    lane_id    integer NOT NULL,
    subject    uuid NOT NULL,
    revision   integer NOT NULL DEFAULT 0 CHECK (revision >= 0),
    due_at     timestamptz NOT NULL,
    claimed_at timestamptz,
    token      bigint NOT NULL DEFAULT 0 CHECK (token >= 0),
    claimed_by uuid,
    ready_at   timestamptz,
    -- The key of a job in its lane, as lane_key_id counts it; NULL without a key.
    key_id     bigint,
    PRIMARY KEY (bucket, subject),
    CHECK (claimed_at IS NULL OR token > 0)
) WITH (
    -- The busiest table: vacuum it by the row, not by the percentage, and never slowly.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_vacuum_cost_delay = 0
);
-- The subject stands last so that what is due at one instant (midnight) has one order as well, and
-- a batch that ends in the middle of it neither sorts nor walks the rest.
CREATE INDEX timer_due ON timer (bucket, lane_id, due_at, subject);
-- What waits under each key, and what is claimed: a limit per key counts the claimed timers, so
-- that there is no counter which a crash could leave wrong. Tokens rise with each claim, so that a
-- count begins at the first one that still stands. Jobs without a key pay for neither.
CREATE INDEX timer_key_waiting ON timer (bucket, lane_id, key_id, due_at, subject)
    WHERE key_id IS NOT NULL AND claimed_at IS NULL;
CREATE INDEX timer_key_claimed ON timer (bucket, key_id, token)
    WHERE key_id IS NOT NULL AND claimed_at IS NOT NULL;

-- One row for each execution that did not end the matter: retries, lost leases, doubt.
CREATE TABLE attempt (
    bucket       smallint NOT NULL,
    attempt      smallint NOT NULL CHECK (attempt > 0),
    tenant_id    integer NOT NULL,
    subject      uuid NOT NULL,
    status       text NOT NULL CHECK (status IN ('FAILED', 'LOST', 'UNKNOWN')),
    due_at       timestamptz NOT NULL,
    started_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL,
    retry_at     timestamptz,
    http_status  smallint,
    execution_id text,
    code         text NOT NULL,
    error        text,
    response     bytea,
    node_id      uuid,
    PRIMARY KEY (bucket, subject, attempt)
) PARTITION BY RANGE (subject);

-- The end of a job or payment, with the execution that ended it. Its key is the exactly-once guard.
-- The token is kept where a worker reported the end over HTTP: it may repeat the report.
CREATE TABLE outcome (
    bucket       smallint NOT NULL,
    attempt      smallint NOT NULL,
    tenant_id    integer NOT NULL,
    subject      uuid NOT NULL,
    status       text NOT NULL CHECK (status IN ('COMPLETED', 'FAILED', 'CANCELLED')),
    due_at       timestamptz NOT NULL,
    started_at   timestamptz,
    finished_at  timestamptz NOT NULL,
    transfer_id  uuid,
    http_status  smallint,
    execution_id text,
    code         text,
    error        text,
    response     bytea,
    node_id      uuid,
    token        bigint,
    -- Who ended it, where this row is the event that tells of it.
    actor        text,
    -- The entries of the transfer, by the versions of the payer's and the payee's account.
    from_version bigint,
    to_version   bigint,
    -- It is unknown whether the work was done: the last attempt had no clear answer (LAST), or only
    -- an earlier one (EARLIER).
    doubt        text CHECK (doubt IN ('LAST', 'EARLIER')),
    PRIMARY KEY (bucket, subject),
    CHECK (status <> 'FAILED' OR code IS NOT NULL),
    CHECK (status <> 'COMPLETED' OR doubt IS NULL)
) PARTITION BY RANGE (subject);
-- Success is the rule and pays nothing for this index; it serves the dead letters.
CREATE INDEX outcome_not_completed ON outcome (bucket, tenant_id, status, subject)
    WHERE status <> 'COMPLETED';

-- Ends of leases, and attempts, as an array for each column; a test compares the names with those
-- of Endings and Attempt in lease/store.py.
CREATE TYPE lease_endings AS (
    subjects      uuid[],
    tokens        bigint[],
    statuses      text[],
    http_statuses smallint[],
    codes         text[],
    errors        text[],
    responses     bytea[],
    untried       boolean[],
    unknown       boolean[]
);
CREATE TYPE attempt_columns AS (
    tenant_id   integer[],
    subject     uuid[],
    attempt     integer[],
    status      text[],
    due_at      timestamptz[],
    started_at  timestamptz[],
    retry_at    timestamptz[],
    http_status smallint[],
    code        text[],
    error       text[],
    response    bytea[],
    node_id     uuid[]
);

SELECT table_guard('lane', fact => false);
SELECT table_guard('timer', fact => false);
SELECT table_guard('attempt', fact => true);
SELECT table_guard('outcome', fact => true);

-- Permits: limits on what runs at once, and starts in a second, that hold across all processes.

-- One row for each limited thing: its lock, and its bucket of tokens for the rate.
CREATE TABLE permit_scope (
    bucket      smallint NOT NULL,
    scope       text COLLATE "C" NOT NULL,
    tokens      double precision NOT NULL,
    refilled_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, scope)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Slots held by a node, or by the lease of a worker over HTTP; those of the dead run out.
CREATE TABLE permit (
    bucket     smallint NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    holder     uuid NOT NULL,
    slots      integer NOT NULL CHECK (slots > 0),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (bucket, scope, holder)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- They belong to no tenant, and no reader needs them.
GRANT SELECT, INSERT, UPDATE, DELETE ON permit_scope, permit TO postdate_writer;

-- Limits for each key of a lane, which hold in the one bucket where the jobs of a key lie.

-- A row that is only ever locked: a claim of jobs with keys of a lane in a bucket holds it.
CREATE TABLE lane_bucket (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    lane      text COLLATE "C" NOT NULL,
    PRIMARY KEY (bucket, tenant_id, lane)
);

-- The rate of a key: when it may start its whole burst again. A key that may do so now needs no
-- row, and a row of the past means nothing.
CREATE TABLE lane_key (
    bucket    smallint NOT NULL,
    key_id    bigint NOT NULL,
    full_at   timestamptz NOT NULL,
    PRIMARY KEY (bucket, key_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

SELECT table_guard('lane_bucket', fact => false);
GRANT SELECT, INSERT, UPDATE, DELETE ON lane_key TO postdate_writer;
