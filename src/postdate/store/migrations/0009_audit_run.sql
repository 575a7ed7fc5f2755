-- When the books were last checked as a whole, and what that found: shown by metrics and alerts.

CREATE TABLE audit_run (
    name        text PRIMARY KEY CHECK (name IN ('prove', 'reconcile', 'verify')),
    finished_at timestamptz NOT NULL DEFAULT clock(),
    seconds     double precision NOT NULL CHECK (seconds >= 0),
    findings    integer NOT NULL CHECK (findings >= 0)
);

-- It belongs to no tenant.
GRANT SELECT ON audit_run TO postdate_reader;
GRANT SELECT, INSERT, UPDATE ON audit_run TO postdate_writer;
