-- Your own transaction: what a login role of the same server asks for with enqueue,
-- schedule_payment and cancel, inside a transaction of its own.

-- For which tenant a login role speaks, and how far it goes. The name of the login decides, which
-- no SET ROLE and no setting of a session changes.
CREATE TABLE client_role (
    role_name  text COLLATE "C" PRIMARY KEY,
    tenant_id  integer NOT NULL REFERENCES tenant,
    scopes     text[] NOT NULL CHECK (cardinality(scopes) > 0
               AND scopes <@ ARRAY['jobs:write', 'payments:write']),
    accounts   text[],
    max_amount bigint CHECK (max_amount > 0),
    bound_at   timestamptz NOT NULL DEFAULT clock(),
    bound_by   text NOT NULL
);

-- What was asked for in a transaction that has not ended. The trigger below accepts all of it when
-- the transaction commits, and deletes it in the same commit: no other transaction ever sees a row,
-- none outlives a crash, and so none is logged.
CREATE UNLOGGED TABLE client_request (
    transaction  xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number       bigint GENERATED ALWAYS AS IDENTITY,
    tenant_id    integer NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('job', 'payment', 'cancel')),
    -- The id that was promised, or what is cancelled.
    subject      uuid NOT NULL,
    actor        text NOT NULL,
    key          uuid,
    fingerprint  uuid,
    body         jsonb NOT NULL DEFAULT '{}',
    payload      bytea,
    PRIMARY KEY (transaction, subject, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);

CREATE UNIQUE INDEX client_request_key ON client_request (transaction, key)
    WHERE key IS NOT NULL;

-- What Python declares and SQL reads: the shapes of a job and a payment, and every setting. Both
-- are written by `postdate migrate` (schema/client_rules.py). A client reads them through the
-- functions only: a role that may read a table may lock it, and would hold up the next migration.
CREATE TABLE client_schema (
    noun   text PRIMARY KEY,
    schema jsonb NOT NULL
);
-- It is read with every request, part by part, and a compressed value is unpacked for each part.
ALTER TABLE client_schema ALTER COLUMN schema SET STORAGE PLAIN;

CREATE TABLE setting_default (
    name         text PRIMARY KEY,
    value        jsonb NOT NULL,
    -- In which direction a tenant may go: nothing, lower, raise, choose.
    tenant_may   text NOT NULL,
    -- Texts in their order, the lowest first; else none.
    choices      text[] NOT NULL,
    zero_is_none boolean NOT NULL
);

-- How much of a tenant with a quota is pending, as counted last and added to since.
CREATE TABLE tenant_pending (
    tenant_id integer NOT NULL REFERENCES tenant,
    kind      text NOT NULL CHECK (kind IN ('jobs', 'payments')),
    pending   bigint NOT NULL CHECK (pending >= 0),
    PRIMARY KEY (tenant_id, kind)
) WITH (fillfactor = 50);

SELECT table_guard('client_role', fact => false);
SELECT table_guard('client_request', fact => false);
SELECT table_guard('tenant_pending', fact => false);
GRANT SELECT ON client_schema, setting_default TO postdate_reader, postdate_writer;
REVOKE ALL ON client_request FROM postdate_reader, postdate_writer;

CREATE CONSTRAINT TRIGGER client_request_due AFTER INSERT ON client_request
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION client_commit();
