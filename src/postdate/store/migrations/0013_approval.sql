-- Approvals: payments above a tenant's threshold wait for a second person.

-- One row for each payment that needed one. Its timer lies in a lane of its own, where no settler
-- looks, until it is decided. That nobody approves what he asked for holds no matter who writes:
-- `persons` are those who may stand behind a key or token, and none of them is on both sides.
CREATE TABLE payment_approval (
    bucket       smallint NOT NULL,
    tenant_id    integer NOT NULL,
    payment_id   uuid NOT NULL,
    requested_by text NOT NULL,
    requested_persons text[] NOT NULL CHECK (cardinality(requested_persons) > 0),
    requested_at timestamptz NOT NULL DEFAULT clock(),
    expires_at   timestamptz NOT NULL,
    decision     text CHECK (decision IN ('approved', 'refused', 'expired', 'withdrawn')),
    decided_by   text,
    decided_persons text[],
    decided_at   timestamptz,
    note         text,
    PRIMARY KEY (bucket, tenant_id, payment_id),
    CHECK ((decision IS NULL) = (decided_at IS NULL) AND (decision IS NULL) = (decided_by IS NULL)),
    CONSTRAINT payment_approval_second CHECK (decision <> 'approved' OR (
        decided_by <> requested_by AND coalesce(cardinality(decided_persons), 0) > 0
        AND NOT decided_persons && requested_persons))
);
CREATE INDEX payment_approval_waiting ON payment_approval (tenant_id, payment_id)
    WHERE decision IS NULL;
CREATE INDEX payment_approval_expiry ON payment_approval (expires_at) WHERE decision IS NULL;
SELECT table_guard('payment_approval', fact => false);
