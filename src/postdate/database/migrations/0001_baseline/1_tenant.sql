-- Who: tenants, their keys and settings, and whether they stand still.
--
-- The baseline is read in the order of its files. Three rules hold for every table of the hot path:
--   bucket is the first column of every key, so that a sharded PostgreSQL can distribute by it;
--   facts (job, payment, attempt, outcome, transfer, event) are inserted, never changed;
--   history is partitioned by ranges of its own UUIDv7 ids, so that keys stay (bucket, id).
-- Functions are in store/functions/<noun>.sql; table_guard turns on row-level security, gives the
-- rights, and makes the default partition.

CREATE TABLE tenant (
    tenant_id  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT clock(),
    -- Disabled: none of its keys and tokens is taken, and it stands still.
    disabled_at timestamptz,
    -- In test mode its time stands still; decided when it is created, for good.
    test       boolean NOT NULL DEFAULT false
);
CREATE TRIGGER tenant_mode BEFORE UPDATE OF test ON tenant
    FOR EACH ROW WHEN (OLD.test <> NEW.test) EXECUTE FUNCTION tenant_keeps_mode();

-- The clock of a tenant in test mode: what it shows, and the advance under way. `held_until` is by
-- the server's clock: the process that advances pushes it out; one that finds it passed goes on.
-- The first `position` events of the chain are entered in the log.
CREATE TABLE test_clock (
    tenant_id  integer PRIMARY KEY REFERENCES tenant,
    at         timestamptz NOT NULL,
    advance    integer NOT NULL DEFAULT 0 CHECK (advance >= 0),
    target     timestamptz CHECK (target >= at),
    began_at   timestamptz,
    advance_key text,
    holder     uuid,
    held_until timestamptz,
    position   bigint NOT NULL DEFAULT 0,
    entries    bigint NOT NULL DEFAULT 0
);
CREATE TRIGGER test_clock_forward BEFORE UPDATE ON test_clock
    FOR EACH ROW WHEN (NEW.at < OLD.at) EXECUTE FUNCTION test_clock_refuse();

-- What happened while a test clock was advanced, in order.
CREATE TABLE test_clock_entry (
    tenant_id integer NOT NULL REFERENCES tenant,
    number    bigint NOT NULL,
    advance   integer NOT NULL,
    at        timestamptz NOT NULL,
    type      text NOT NULL,
    subject   uuid NOT NULL,
    outcome   jsonb NOT NULL,
    PRIMARY KEY (tenant_id, number)
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
    created_at   timestamptz NOT NULL DEFAULT server_clock(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_tenant ON api_key (tenant_id, key_id);

-- Who is signed in to the console. The cookie alone opens `secret`, which holds the key: a
-- reader of this table, or of a dump of it, has neither.
CREATE TABLE console_session (
    digest    bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    tenant_id integer NOT NULL REFERENCES tenant,
    key_id    text NOT NULL,
    secret    bytea NOT NULL,
    until     timestamptz NOT NULL
);

-- Run-time settings: tenant 0 speaks for all tenants. What the operator has set for a tenant and
-- what the tenant has set for itself stand beside each other: neither overwrites the other's.
CREATE TABLE setting (
    tenant_id  integer NOT NULL,
    name       text NOT NULL,
    value      jsonb NOT NULL,
    operator   boolean NOT NULL CHECK (operator OR tenant_id > 0),
    changed_at timestamptz NOT NULL DEFAULT clock(),
    changed_by text NOT NULL,
    PRIMARY KEY (tenant_id, name, operator)
);

-- A tenant that stands still, by its kill switch or in a freeze window. `hold` lets nothing start
-- that is due; `drain` accepts nothing new. The switch is both, and has no end of its own. A row
-- stays, lifted, until the timers that waited for its end are back.
CREATE TABLE tenant_halt (
    tenant_id integer NOT NULL REFERENCES tenant,
    kind      text NOT NULL CHECK (kind IN ('kill', 'freeze')),
    mode      text NOT NULL CHECK (mode IN ('hold', 'drain')),
    from_at   timestamptz NOT NULL,
    until_at  timestamptz,
    note      text NOT NULL,
    set_by    text NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT clock(),
    lifted_at timestamptz,
    PRIMARY KEY (tenant_id, kind),
    CHECK ((kind = 'kill') = (until_at IS NULL)),
    CHECK (kind <> 'kill' OR mode = 'hold'),
    CHECK (until_at > from_at)
);

SELECT lock_tables_ensure();

SELECT table_guard('tenant', fact => false);
SELECT table_guard('test_clock', fact => false);
SELECT table_guard('test_clock_entry', fact => true);
SELECT table_guard('api_key', fact => false);
SELECT table_guard('console_session', fact => false);
SELECT table_guard('setting', fact => false);
SELECT table_guard('tenant_halt', fact => false);

-- Settings for all tenants are no secret; a reader sees them beside its own.
DROP POLICY reader_own ON setting;
CREATE POLICY reader_own ON setting FOR SELECT TO postdate_reader
    USING (tenant_id IN (0, current_tenant()));
