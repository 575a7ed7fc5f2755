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

-- An instant as everything we write has it: RFC 3339 in UTC, with a Z.
CREATE FUNCTION instant_text(at timestamptz) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')$$;

-- The token of a claim: when it was made, in milliseconds since 2020, then 12 random bits. So it
-- differs from that of every other claim and is higher than all before it, even where a commit was
-- lost and its number comes again; and it stays below 2^53, which every JSON reader can hold.
CREATE FUNCTION claim_token(random_bits integer) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT (date_part('epoch', clock()) * 1000 - 1577836800000)::bigint * 4096 + random_bits$$;

-- The tenant of the current transaction, set by SET LOCAL from a validated number. Without it a
-- reader sees no row at all.
CREATE FUNCTION current_tenant() RETURNS integer
    LANGUAGE sql STABLE PARALLEL SAFE AS
    $$SELECT nullif(current_setting('postdate.tenant_id', true), '')::integer$$;

-- The smallest UUIDv7 of an instant: the bound between two partitions.
CREATE FUNCTION uuid_floor(at timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT rpad(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid$$;

-- The instant of a UUIDv7, to the millisecond.
CREATE FUNCTION uuid_instant(id uuid) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint
                          / 1000.0)$$;

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
    -- Everybody who may have seen the secret of this key, or of one that it replaced: a key that
    -- the operator issued stands for a person of its own, one that a key made for its maker.
    persons      text[] NOT NULL CHECK (cardinality(persons) BETWEEN 1 AND 100),
    created_at   timestamptz NOT NULL DEFAULT clock(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_tenant ON api_key (tenant_id, key_id);

-- Run-time settings: tenant 0 speaks for all tenants. What the operator has set for a tenant and
-- what the tenant has set for itself stand beside each other: nobody overwrites the other's.
CREATE TABLE setting (
    tenant_id  integer NOT NULL,
    name       text NOT NULL,
    value      jsonb NOT NULL,
    operator   boolean NOT NULL CHECK (operator OR tenant_id > 0),
    changed_at timestamptz NOT NULL DEFAULT clock(),
    changed_by text NOT NULL,
    PRIMARY KEY (tenant_id, name, operator)
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
    PRIMARY KEY (bucket, subject),
    CHECK (status <> 'FAILED' OR code IS NOT NULL)
) PARTITION BY RANGE (subject);
-- Success is the rule and pays nothing for this index; it serves the dead letters.
CREATE INDEX outcome_not_completed ON outcome (bucket, tenant_id, status, subject)
    WHERE status <> 'COMPLETED';

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
    PRIMARY KEY (bucket, subject, event_id)
) PARTITION BY RANGE (event_id);

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

-- Partitions: weekly, named after their Monday, made ahead by a maintenance task. The default
-- partition catches what a wildly wrong clock would otherwise break; it should stay empty.
CREATE FUNCTION partition_name(parent regclass, monday timestamptz) RETURNS text
    LANGUAGE sql STABLE AS
    $$SELECT format('%s_%s', (SELECT relname FROM pg_class WHERE oid = parent),
                    to_char(monday AT TIME ZONE 'UTC', 'YYYYMMDD'))$$;

CREATE FUNCTION partition_ensure(parent regclass, monday timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    child text := partition_name(parent, monday);
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

-- Make every partition from the last week to `weeks` ahead. Returns how many were made, and which
-- could not be: a row in the default partition that belongs to a week stands in the way of that
-- week alone, a table that somebody holds in the way of that table alone.
CREATE FUNCTION partition_ahead(weeks integer, OUT made integer, OUT blocked text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    parent regclass;
    week integer;
    monday timestamptz;
BEGIN
    made := 0;
    blocked := '{}';
    FOR parent IN SELECT p.partrelid::regclass FROM pg_partitioned_table p
                  JOIN pg_class c ON c.oid = p.partrelid
                  WHERE c.relnamespace = current_schema()::regnamespace ORDER BY c.relname LOOP
        FOR week IN -1 .. weeks LOOP
            monday := (date_trunc('week', clock() AT TIME ZONE 'UTC')
                       + week * interval '7 days') AT TIME ZONE 'UTC';
            BEGIN
                IF partition_ensure(parent, monday) THEN
                    made := made + 1;
                END IF;
            EXCEPTION
                WHEN check_violation THEN
                    blocked := blocked || partition_name(parent, monday);
                WHEN lock_not_available OR deadlock_detected THEN
                    blocked := blocked || partition_name(parent, monday);
                    EXIT;
            END;
        END LOOP;
    END LOOP;
END $$;

-- What lies in the default partitions, by table and week, up to 10,000 rows of each table.
CREATE FUNCTION partition_strays() RETURNS TABLE (parent text, monday timestamptz, strays bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    found record;
BEGIN
    FOR found IN SELECT c.relname, a.attname, p.partdefid::regclass AS apart
                   FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
                   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
                  WHERE c.relnamespace = current_schema()::regnamespace AND p.partdefid <> 0
                  ORDER BY c.relname LOOP
        RETURN QUERY EXECUTE format(
            'SELECT %L::text, week AT TIME ZONE ''UTC'', count(*) FROM (
                 SELECT date_trunc(''week'', uuid_instant(%I) AT TIME ZONE ''UTC'') AS week
                   FROM %s LIMIT 10000) AS stray GROUP BY week ORDER BY week',
            found.relname, found.attname, found.apart);
    END LOOP;
END $$;

-- Make the partition of one week of one table although rows of that week lie in the default
-- partition: they are moved into it. Nobody uses the table meanwhile.
CREATE FUNCTION partition_mend(parent text, monday timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    target record;
    child text;
    low uuid := uuid_floor(monday);
    high uuid := uuid_floor(monday + interval '7 days');
    moved bigint;
BEGIN
    SELECT c.oid::regclass AS name, a.attname AS key INTO target
      FROM pg_partitioned_table p JOIN pg_class c ON c.oid = p.partrelid
      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relname = parent;
    IF target IS NULL THEN
        RAISE EXCEPTION 'there is no partitioned table %', parent USING ERRCODE = 'PD003';
    END IF;
    child := partition_name(target.name, monday);
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', target.name);
    IF to_regclass(child) IS NOT NULL THEN
        RAISE EXCEPTION '% is there already', child USING ERRCODE = 'PD003';
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %s INCLUDING DEFAULTS INCLUDING CONSTRAINTS '
                   'INCLUDING STORAGE)', child, target.name);
    PERFORM set_config('postdate.prune', 'on', true);
    EXECUTE format('WITH moved AS (DELETE FROM %s WHERE %I >= %L AND %I < %L RETURNING *) '
                   'INSERT INTO %I SELECT * FROM moved',
                   target.name, target.key, low, target.key, high, child);
    GET DIAGNOSTICS moved = ROW_COUNT;
    PERFORM set_config('postdate.prune', 'off', true);
    EXECUTE format('ALTER TABLE %s ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                   target.name, child, low, high);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', child);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', child);
    RETURN moved;
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
        EXECUTE format('CREATE POLICY owner_all ON %I TO CURRENT_USER USING (true) '
                       'WITH CHECK (true)', plain || '_default');
    END IF;
END $$;

SELECT table_guard(t, fact => false)
    FROM unnest('{tenant,api_key,setting,lane,timer,idempotency}'::regclass[]) AS t;
SELECT table_guard(t, fact => true) FROM unnest('{attempt,outcome,event}'::regclass[]) AS t;

-- Settings for all tenants are no secret; a reader sees them beside its own.
DROP POLICY reader_own ON setting;
CREATE POLICY reader_own ON setting FOR SELECT TO postdate_reader
    USING (tenant_id IN (0, current_tenant()));

-- Nodes belong to no tenant, and none reads of them: they are the operator's.
GRANT SELECT, INSERT, UPDATE, DELETE ON node TO postdate_writer;

REVOKE EXECUTE ON FUNCTION partition_ensure, partition_ahead, partition_strays, partition_mend,
    table_guard FROM PUBLIC;
GRANT EXECUTE ON FUNCTION partition_ahead, partition_strays, partition_mend TO postdate_writer;
