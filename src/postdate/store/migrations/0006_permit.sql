-- Permits: limits on what runs at once, and starts in a second, that hold across all processes.

-- One row for each limited thing: its lock, and its bucket of tokens for the rate.
CREATE TABLE permit_scope (
    bucket      smallint NOT NULL,
    scope       text COLLATE "C" NOT NULL,
    tokens      double precision NOT NULL CHECK (tokens >= 0),
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
