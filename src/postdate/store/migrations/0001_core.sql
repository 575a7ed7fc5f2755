-- The core: who (tenant, api_key), what is configured (setting, lane, node), what will happen
-- (timer), what has happened (attempt, outcome, event), and what was asked (idempotency).
--
-- Three rules hold for every table of the hot path:
--   bucket is the first column of every key, so that a sharded PostgreSQL can distribute by it;
--   facts (attempt, outcome, event, and later job, payment, entry) are inserted, never changed;
--   history is partitioned by ranges of its own UUIDv7 ids, so that keys stay (bucket, id).

-- Every comparison with the present goes through this one function. The planner inlines it, so it
-- costs nothing; the tests replace it to travel in time.
CREATE FUNCTION clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT statement_timestamp()';

-- The tenant of the current transaction, set by SET LOCAL from a validated number. Without it a
-- reader sees no row at all.
CREATE FUNCTION current_tenant() RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT nullif(current_setting('postdate.tenant_id', true), '')::integer$$;

-- The smallest UUIDv7 of an instant: the bound between two partitions.
CREATE FUNCTION uuid_floor(at timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT rpad(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid$$;

-- Facts are immutable, no matter who writes. Only the owner, inside a prune, may remove old ones.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('postdate.prune', true) = 'on'
       AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% on % refused: facts are only ever inserted', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'PD001';
END $$;

CREATE TABLE tenant (
    tenant_id  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT clock()
);

-- A key is kept only as the hash of its random bits.
CREATE TABLE api_key (
    key_id       uuid PRIMARY KEY,
    tenant_id    integer NOT NULL REFERENCES tenant,
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    hint         text NOT NULL,
    note         text NOT NULL DEFAULT '',
    scopes       text[] NOT NULL CHECK (cardinality(scopes) > 0),
    accounts     text[],
    max_amount   bigint CHECK (max_amount > 0),
    created_at   timestamptz NOT NULL DEFAULT clock(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_tenant ON api_key (tenant_id, key_id);

-- Run-time settings: tenant 0 speaks for all tenants; percent rolls a feature out by ids.
CREATE TABLE setting (
    tenant_id  integer NOT NULL,
    name       text NOT NULL,
    value      jsonb NOT NULL,
    percent    smallint CHECK (percent BETWEEN 0 AND 100),
    changed_at timestamptz NOT NULL DEFAULT clock(),
    changed_by text NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE node (
    node_id    uuid PRIMARY KEY,
    name       text NOT NULL,
    roles      text[] NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock(),
    seen_at    timestamptz NOT NULL DEFAULT clock()
);

-- A lane is a tenant's queue of jobs. Ids below 16 are the system's own lanes (payments, schedules,
-- deliveries of events), which have no row here. `width` is how many of the buckets its jobs use.
-- A name has up to two rows, which share everything but the id: our own handlers take from the one
-- (push), workers that ask over HTTP from the other (pull), so that neither walks past the other's.
CREATE TABLE lane (
    lane_id         integer GENERATED ALWAYS AS IDENTITY (START WITH 16) PRIMARY KEY,
    tenant_id       integer NOT NULL REFERENCES tenant,
    name            text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
    kind            text NOT NULL DEFAULT 'push' CHECK (kind IN ('push', 'pull')),
    weight          smallint NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    width           smallint NOT NULL DEFAULT 8 CHECK (width BETWEEN 1 AND 64),
    max_running     integer CHECK (max_running > 0),
    rate_per_second real CHECK (rate_per_second > 0),
    paused_at       timestamptz,
    paused_note     text,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    changed_at      timestamptz NOT NULL DEFAULT clock(),
    UNIQUE (tenant_id, name, kind)
);

-- Everything that must happen at an instant is one narrow row. A claimed timer is a lease: due_at
-- is when the lease ends, token the number of the claim, ready_at when this execution was due.
-- 'infinity' waits for a person.
CREATE TABLE timer (
    bucket     smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id  integer NOT NULL,
    lane_id    integer NOT NULL,
    subject    uuid NOT NULL,
    due_at     timestamptz NOT NULL,
    claimed_at timestamptz,
    token      integer NOT NULL DEFAULT 0 CHECK (token >= 0),
    revision   integer NOT NULL DEFAULT 0 CHECK (revision >= 0),
    claimed_by uuid,
    ready_at   timestamptz,
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

-- One row for each execution that did not end the matter: retries, lost leases, doubt.
CREATE TABLE attempt (
    bucket       smallint NOT NULL,
    tenant_id    integer NOT NULL,
    subject      uuid NOT NULL,
    token        integer NOT NULL CHECK (token > 0),
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
    PRIMARY KEY (bucket, subject, token)
) PARTITION BY RANGE (subject);

-- The end of a job or payment, with the execution that ended it. Its key is the exactly-once guard.
CREATE TABLE outcome (
    bucket       smallint NOT NULL,
    tenant_id    integer NOT NULL,
    subject      uuid NOT NULL,
    token        integer NOT NULL,
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
    PRIMARY KEY (bucket, subject),
    CHECK (status <> 'FAILED' OR code IS NOT NULL)
) PARTITION BY RANGE (subject);
-- Success is the rule and pays nothing for this index; it serves the dead letters.
CREATE INDEX outcome_not_completed ON outcome (bucket, tenant_id, status, subject)
    WHERE status <> 'COMPLETED';

-- What changed, for whom and by whom. xid lets the publisher read in commit order without gaps.
CREATE TABLE event (
    bucket    smallint NOT NULL,
    tenant_id integer NOT NULL,
    subject   uuid NOT NULL,
    event_id  uuid NOT NULL,
    time      timestamptz NOT NULL DEFAULT clock(),
    xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    type      text NOT NULL,
    actor     text,
    data      jsonb,
    PRIMARY KEY (bucket, subject, event_id)
) PARTITION BY RANGE (event_id);
CREATE INDEX event_commit ON event (bucket, xid);

-- What was asked under a key and what was answered. For ever for money, by retention for jobs.
CREATE TABLE idempotency (
    bucket     smallint NOT NULL,
    tenant_id  integer NOT NULL,
    scope      text NOT NULL,
    key        text COLLATE "C" NOT NULL,
    subject    uuid,
    status     smallint NOT NULL,
    request    bytea NOT NULL,
    response   bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, tenant_id, scope, key)
);
CREATE INDEX idempotency_age ON idempotency USING brin (created_at) WITH (pages_per_range = 32);

-- Partitions: weekly, named after their Monday, made ahead by a maintenance task. The default
-- partition catches what a wildly wrong clock would otherwise break; it should stay empty.
CREATE FUNCTION partition_ensure(parent regclass, monday timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    child text := format('%s_%s', (SELECT relname FROM pg_class WHERE oid = parent),
                         to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'));
BEGIN
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I PARTITION OF %s FOR VALUES FROM (%L) TO (%L)', child, parent,
                   uuid_floor(monday), uuid_floor(monday + interval '7 days'));
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', child);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', child);
    RETURN true;
END $$;

-- Make every partition from the last week to `weeks` ahead. Returns how many were made.
CREATE FUNCTION partition_ahead(weeks integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    made integer := 0;
    parent regclass;
    week integer;
BEGIN
    FOR parent IN SELECT p.partrelid::regclass FROM pg_partitioned_table p
                  JOIN pg_class c ON c.oid = p.partrelid
                  WHERE c.relnamespace = current_schema()::regnamespace ORDER BY c.relname LOOP
        FOR week IN -1 .. weeks LOOP
            IF partition_ensure(parent, (date_trunc('week', clock() AT TIME ZONE 'UTC')
                                + week * interval '7 days') AT TIME ZONE 'UTC') THEN
                made := made + 1;
            END IF;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Turn a table into one of ours: row-level security forced, rights given, facts guarded.
-- Rights of a fact: insert and select. A definition may also be changed and deleted.
CREATE FUNCTION table_guard(target regclass, fact boolean) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    partitioned boolean := EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = target);
    plain text := (SELECT relname FROM pg_class WHERE oid = target);
BEGIN
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', target);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', target);
    EXECUTE format('CREATE POLICY owner_all ON %s TO CURRENT_USER USING (true) WITH CHECK (true)',
                   target);
    EXECUTE format('CREATE POLICY writer_all ON %s TO postdate_writer USING (true) '
                   'WITH CHECK (true)', target);
    EXECUTE format('CREATE POLICY reader_own ON %s FOR SELECT TO postdate_reader '
                   'USING (tenant_id = current_tenant())', target);
    EXECUTE format('GRANT SELECT ON %s TO postdate_reader', target);
    IF fact THEN
        EXECUTE format('GRANT SELECT, INSERT ON %s TO postdate_writer', target);
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %s '
                       'FOR EACH ROW EXECUTE FUNCTION refuse_change()', plain || '_fact', target);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
                       'EXECUTE FUNCTION refuse_change()', plain || '_fact_truncate', target);
    ELSE
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO postdate_writer', target);
    END IF;
    IF partitioned THEN
        EXECUTE format('CREATE TABLE %I PARTITION OF %s DEFAULT', plain || '_default', target);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', plain || '_default');
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', plain || '_default');
    END IF;
END $$;

SELECT table_guard(t, fact => false)
    FROM unnest('{tenant,api_key,setting,lane,timer,idempotency}'::regclass[]) AS t;
SELECT table_guard(t, fact => true) FROM unnest('{attempt,outcome,event}'::regclass[]) AS t;

-- Settings for all tenants are no secret; a reader sees them beside its own.
DROP POLICY reader_own ON setting;
CREATE POLICY reader_own ON setting FOR SELECT TO postdate_reader
    USING (tenant_id IN (0, current_tenant()));

-- Nodes belong to no tenant.
GRANT SELECT ON node TO postdate_reader;
GRANT SELECT, INSERT, UPDATE, DELETE ON node TO postdate_writer;

REVOKE EXECUTE ON FUNCTION partition_ensure, partition_ahead, table_guard FROM PUBLIC;
GRANT EXECUTE ON FUNCTION partition_ahead TO postdate_writer;
