-- Activity: what a tenant had accepted, executed and failed in each ten seconds, and how late.
--
-- The publisher counts while it seals, in the same transaction, so that the numbers are those of
-- the whole cluster and survive a restart; nodes add how late they began. A page reads some hundred
-- narrow rows of one tenant, however many jobs there are. Two hours are kept.

CREATE FUNCTION array_sum(integer[], integer[]) RETURNS integer[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
    $$SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS both_of (a, b, place)$$;

CREATE TABLE activity (
    tenant_id         integer NOT NULL,
    slot              timestamptz NOT NULL,
    jobs_accepted     integer NOT NULL DEFAULT 0,
    payments_accepted integer NOT NULL DEFAULT 0,
    jobs_executed     integer NOT NULL DEFAULT 0,
    payments_executed integer NOT NULL DEFAULT 0,
    jobs_failed       integer NOT NULL DEFAULT 0,
    payments_failed   integer NOT NULL DEFAULT 0,
    -- Histograms: how many began so late, by the bounds of model/activity.py.
    jobs_late         integer[] NOT NULL DEFAULT '{}',
    payments_late     integer[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX activity_slot ON activity (slot);
SELECT table_guard('activity', false);
