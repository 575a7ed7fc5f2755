-- Destinations: named places that jobs go to, and the secrets that sign what goes there.
--
-- Secrets and queue settings are envelopes: encrypted with a key that is not in the database.

-- Which keys have encrypted something here. A node that has none of them would write secrets that
-- the others cannot read, so it must not write any.
CREATE TABLE secret_key (
    key_id     bigint PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT clock()
);
GRANT SELECT, INSERT, DELETE ON secret_key TO postdate_writer;

CREATE TABLE destination (
    destination_id  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id       integer NOT NULL REFERENCES tenant,
    name            text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
    type            text NOT NULL CHECK (type IN ('webhook', 'queue')),
    url             text,
    kind            text,
    config          bytea,
    secret          bytea,
    -- While a secret is being rotated, both sign.
    previous_secret bytea,
    previous_until  timestamptz,
    max_running     integer CHECK (max_running > 0),
    rate_per_second real CHECK (rate_per_second > 0),
    disabled_at     timestamptz,
    disabled_reason text,
    paused_at       timestamptz,
    paused_reason   text,
    paused_by       text,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    changed_at      timestamptz NOT NULL DEFAULT clock(),
    UNIQUE (tenant_id, name),
    CHECK (type <> 'webhook' OR (url IS NOT NULL AND secret IS NOT NULL)),
    CHECK (type <> 'queue' OR (kind IS NOT NULL AND config IS NOT NULL)),
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL)),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CHECK ((paused_at IS NULL) = (paused_reason IS NULL)),
    CHECK (paused_by IS NULL OR paused_at IS NOT NULL)
);

-- Signs the jobs of a tenant that give a bare URL.
CREATE TABLE signing_secret (
    tenant_id       integer PRIMARY KEY REFERENCES tenant,
    secret          bytea NOT NULL,
    previous_secret bytea,
    previous_until  timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock(),
    changed_at      timestamptz NOT NULL DEFAULT clock(),
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL))
);

-- Payload keys: what encrypts the payloads of tenants that ask for it.
--
-- Payloads are facts and never change, so they are sealed with a key of their tenant; that key is
-- in an envelope of the server's own, and rotation writes only the envelope anew.
CREATE TABLE payload_key (
    tenant_id  integer PRIMARY KEY REFERENCES tenant,
    envelope   bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock()
);

-- The keys that sign receipts, for all tenants: the newest signs, all are published.
CREATE TABLE receipt_key (
    number     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key_id     text COLLATE "C" NOT NULL UNIQUE CHECK (key_id ~ '^[0-9a-f]{32}$'),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    envelope   bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock()
);
GRANT SELECT, INSERT, UPDATE ON receipt_key TO postdate_writer;

-- Places whose breaker is open in a process: told by that process when something changes, and
-- forgotten when it falls silent. A target is a destination's name, or a URL without its query.
CREATE TABLE destination_trouble (
    tenant_id  integer NOT NULL,
    target      text COLLATE "C" NOT NULL,
    node_id    uuid NOT NULL,
    held_until timestamptz NOT NULL,
    since      timestamptz NOT NULL,
    calls      integer NOT NULL,
    successes  integer NOT NULL CHECK (successes BETWEEN 0 AND calls),
    p99_ms     integer NOT NULL,
    answers    jsonb NOT NULL,
    reported_at    timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (tenant_id, target, node_id)
);

-- How the latest calls of each target went, as each process reports them every ten seconds while it
-- calls: for the pages of destinations and nodes. A row is one target and one node.
CREATE TABLE destination_call (
    tenant_id   integer NOT NULL,
    target       text COLLATE "C" NOT NULL,
    node_id     uuid NOT NULL,
    calls       integer NOT NULL,
    successes   integer NOT NULL CHECK (successes BETWEEN 0 AND calls),
    p50_ms      integer NOT NULL,
    p99_ms      integer NOT NULL,
    answers     jsonb NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (tenant_id, target, node_id)
);
CREATE INDEX destination_call_node ON destination_call (node_id, reported_at);

SELECT table_guard('destination', fact => false);
SELECT table_guard('signing_secret', fact => false);
SELECT table_guard('payload_key', fact => false);
SELECT table_guard('destination_trouble', fact => false);
SELECT table_guard('destination_call', fact => false);
