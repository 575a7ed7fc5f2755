-- Jobs: what to do at an instant, immutable; changes before execution are revisions.

CREATE TABLE job (
    bucket         smallint NOT NULL,
    tenant_id      integer NOT NULL,
    job_id         uuid NOT NULL,
    lane_id        integer NOT NULL,
    -- The nominal instant and the one after spreading; the timer carries the latter.
    due_at         timestamptz NOT NULL,
    effective_at   timestamptz NOT NULL,
    expires_at     timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock(),
    destination    jsonb NOT NULL,
    -- Retry policy and timeout, as given; absent members follow the tenant's defaults.
    policy         jsonb,
    payload        bytea,
    content_type   text,
    payload_ref    text,
    spread_seconds integer,
    metadata       jsonb,
    description    text,
    schedule_id    uuid,
    origin_id      uuid,
    traceparent    text,
    -- Who asked for it, and the hash of the key: the row of that key is proved by it.
    actor          text,
    idempotency_key uuid,
    -- The unique key, and what a second request under it does: key, on_conflict, max_delay_seconds.
    unique_by      jsonb CHECK (unique_by ? 'key'),
    -- Whom it is for; all jobs of a lane with one key lie in one bucket.
    key            text CHECK (char_length(key) BETWEEN 1 AND 255),
    PRIMARY KEY (bucket, tenant_id, job_id),
    CHECK (payload IS NULL OR payload_ref IS NULL)
) PARTITION BY RANGE (job_id);
-- New jobs, as an array for each column: the one list of what a call gives. The fields of NewJob in
-- job/store/job.py are the same, in the same order, and a test compares them.
CREATE TYPE job_columns AS (
    job_id          uuid[],
    tenant_id       integer[],
    lane_id         integer[],
    due_at          timestamptz[],
    effective_at    timestamptz[],
    expires_at      timestamptz[],
    destination     text[],
    policy          text[],
    payload         bytea[],
    content_type    text[],
    payload_ref     text[],
    spread_seconds  integer[],
    metadata        text[],
    description     text[],
    schedule_id     uuid[],
    origin_id       uuid[],
    traceparent     text[],
    actor           text[],
    idempotency_key uuid[],
    unique_by       text[],
    key             text[],
    -- Of the timer: the key in its lane, as lane_key_id counts it.
    key_id          bigint[]
);
CREATE INDEX job_schedule ON job (bucket, schedule_id, job_id) WHERE schedule_id IS NOT NULL;
CREATE INDEX job_unique_by ON job (bucket, tenant_id, (unique_by ->> 'key'), job_id)
    WHERE unique_by IS NOT NULL;

-- The newest job under each unique key: the key is held while that job waits, which its timer
-- says. Accepting a job under the key locks this row first, then the timer; only prune also
-- touches it, with the job. The key is a hash (job_unique_hash), so that rows are narrow.
CREATE TABLE job_unique (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    key       uuid NOT NULL,
    -- NULL only inside the transaction that makes the row.
    job_id    uuid,
    PRIMARY KEY (bucket, tenant_id, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- A change of time, payload, policy or priority before execution; timer.revision says which one
-- counts. Every revision is whole but for the payload, which may be large: payload_revision says
-- which revision carries it, 0 being the job itself.
CREATE TABLE job_revision (
    bucket           smallint NOT NULL,
    tenant_id        integer NOT NULL,
    job_id           uuid NOT NULL,
    revision         integer NOT NULL CHECK (revision > 0),
    due_at           timestamptz NOT NULL,
    effective_at     timestamptz NOT NULL,
    expires_at       timestamptz,
    policy           jsonb,
    payload_revision integer NOT NULL CHECK (payload_revision BETWEEN 0 AND revision),
    payload          bytea,
    content_type     text,
    payload_ref      text,
    created_at       timestamptz NOT NULL DEFAULT clock(),
    -- The row of its lane: a change of priority is a move to another.
    lane_id          integer NOT NULL,
    PRIMARY KEY (bucket, job_id, revision),
    CHECK (payload IS NULL OR payload_ref IS NULL),
    CHECK (payload_revision = revision OR (payload IS NULL AND payload_ref IS NULL))
) PARTITION BY RANGE (job_id);

-- How far the execution of a job has come, as its worker reports it, and what the next attempt goes
-- on from; and that its cancellation was requested while it ran, until `cancel_deadline`: NULL once
-- that is settled. Only jobs whose worker reports progress, or that are cancelled while they run,
-- have a row. Note and checkpoint are encrypted where payloads are.
CREATE TABLE job_progress (
    bucket              smallint NOT NULL,
    tenant_id           integer NOT NULL,
    job_id              uuid NOT NULL,
    percent             double precision CHECK (percent BETWEEN 0 AND 100),
    note                bytea,
    checkpoint          bytea,
    updated_at          timestamptz,
    cancel_requested_at timestamptz,
    cancel_requested_by text,
    cancel_deadline     timestamptz,
    -- When the job's `cancel_url` is called next; NULL once it has answered, or without one.
    cancel_call_at      timestamptz,
    PRIMARY KEY (bucket, job_id),
    CHECK (cancel_deadline IS NULL OR cancel_requested_at IS NOT NULL)
) WITH (fillfactor = 50);

CREATE INDEX job_progress_cancel ON job_progress (cancel_deadline)
    WHERE cancel_deadline IS NOT NULL;
CREATE INDEX job_progress_call ON job_progress (cancel_call_at) WHERE cancel_call_at IS NOT NULL;

-- The last lines that the worker of an attempt wrote, as a JSON array, encrypted where payloads
-- are; `dropped` counts the older ones that are gone.
CREATE TABLE attempt_log (
    bucket    smallint NOT NULL,
    attempt   smallint NOT NULL CHECK (attempt > 0),
    tenant_id integer NOT NULL,
    job_id    uuid NOT NULL,
    dropped   integer NOT NULL DEFAULT 0 CHECK (dropped >= 0),
    lines     bytea NOT NULL,
    PRIMARY KEY (bucket, job_id, attempt)
) WITH (fillfactor = 50);

-- What a client's key led to: for ever for money, by retention for jobs. A row is narrow: 16 bytes
-- of the key's hash, a fingerprint of the request, and the address of what was made, from which the
-- answer follows. `kept` holds request and answer only where it does not: of refusals, and of rare
-- operations. The columns stand so that none is padded.
CREATE TABLE idempotency (
    bucket      smallint NOT NULL,
    -- As KeyScope in intake/store.py: 1 job, 2 redrive, 3 payment, 4 adjustment, 5 schedule,
    -- 0 any other operation.
    scope       smallint NOT NULL,
    tenant_id   integer NOT NULL,
    -- The instant by which the request was judged.
    created_at  timestamptz NOT NULL,
    key         uuid NOT NULL,
    fingerprint uuid NOT NULL,
    subject     uuid,
    kept        bytea,
    PRIMARY KEY (bucket, scope, tenant_id, key),
    CHECK (subject IS NOT NULL OR kept IS NOT NULL)
);
-- New keys, as an array for each column; the fields of IdempotencyRow in intake/store.py.
CREATE TYPE idempotency_columns AS (
    bucket      smallint[],
    scope       smallint[],
    tenant_id   integer[],
    hash        uuid[],
    fingerprint uuid[],
    subject     uuid[],
    created_at  timestamptz[],
    kept        bytea[]
);

-- Up to which instant a tenant's ended jobs were pruned. What was told of them before stays sealed;
-- that the jobs themselves are gone is then as it should be.
CREATE TABLE job_pruned (
    tenant_id integer PRIMARY KEY,
    before    timestamptz NOT NULL
);

SELECT table_guard('job', fact => true);
SELECT table_guard('job_revision', fact => true);
SELECT table_guard('job_unique', fact => false);
SELECT table_guard('job_progress', fact => false);
SELECT table_guard('attempt_log', fact => false);
SELECT table_guard('idempotency', fact => false);
SELECT table_guard('job_pruned', fact => false);
REVOKE INSERT, UPDATE, DELETE ON job_pruned FROM postdate_writer;
