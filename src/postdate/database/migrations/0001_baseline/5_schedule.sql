-- Schedules: the recurring rule, and the book of what became of each occurrence.

-- What was asked for, in each of its versions; an occurrence names the one it followed.
CREATE TABLE schedule_version (
    bucket      smallint NOT NULL,
    tenant_id   integer NOT NULL,
    schedule_id uuid NOT NULL,
    version     integer NOT NULL CHECK (version > 0),
    name        text NOT NULL,
    rule        jsonb NOT NULL,
    policies    jsonb NOT NULL,
    -- json, not jsonb: a payload is delivered byte for byte as it was given.
    template    json NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock(),
    actor       text NOT NULL,
    -- Who wrote the template as it stands, and the persons behind it as it will be executed: the
    -- author's, and everyone's who has changed the rule or the policies since.
    template_by text NOT NULL,
    persons     text[] NOT NULL CHECK (cardinality(persons) > 0),
    -- It decides about what is scheduled after `since`; the version before it about what is
    -- scheduled until `previous_until`. The two differ only where a schedule stood still between.
    since          timestamptz NOT NULL DEFAULT clock(),
    previous_until timestamptz NOT NULL DEFAULT clock(),
    -- Which request asked for it: what the schedule makes is linked to it.
    traceparent text,
    PRIMARY KEY (bucket, tenant_id, schedule_id, version)
);
CREATE INDEX schedule_version_name ON schedule_version (tenant_id, name);

-- Where a schedule stands: narrow, and no column that every occurrence changes is indexed, so that
-- the update stays on its page (HOT). Its next occurrence is a timer in lane 1.
CREATE TABLE schedule (
    bucket       smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id    integer NOT NULL,
    schedule_id  uuid NOT NULL,
    version      integer NOT NULL DEFAULT 1 CHECK (version > 0),
    runs         integer NOT NULL DEFAULT 0 CHECK (runs >= 0),
    -- Every nominal occurrence up to this instant is in the book.
    handled      timestamptz NOT NULL,
    buffered_for timestamptz,
    -- The job or payment of the last occurrence, which the next one may overlap.
    last_id      uuid,
    -- Occurrences between the two are skipped; resumed_at is NULL while the pause lasts.
    paused_at    timestamptz,
    resumed_at   timestamptz,
    paused_note  text,
    missed_at    timestamptz,
    -- Expanding it failed: it has no timer until it is changed or resumed.
    set_aside_at    timestamptz,
    set_aside_error text,
    -- Since when the audit has found that it does not fire when its rule says so.
    silent_since timestamptz,
    ended_at     timestamptz,
    deleted_at   timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock(),
    changed_at   timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, tenant_id, schedule_id),
    CHECK (resumed_at IS NULL OR paused_at IS NOT NULL),
    CHECK ((set_aside_at IS NULL) = (set_aside_error IS NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedule_tenant ON schedule (tenant_id, schedule_id) WHERE deleted_at IS NULL;
CREATE INDEX schedule_set_aside ON schedule (tenant_id, schedule_id)
    WHERE set_aside_at IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedule_silent ON schedule (silent_since)
    WHERE silent_since IS NOT NULL AND deleted_at IS NULL;

-- The book. occurrence_id is made of the schedule and the instant alone, so that the key is the
-- exactly-once guard of (schedule, occurrence); being a UUIDv7 of that instant it partitions like
-- all history.
CREATE TABLE occurrence (
    bucket        smallint NOT NULL,
    tenant_id     integer NOT NULL,
    schedule_id   uuid NOT NULL,
    occurrence_id uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    -- What the rule said on the wall clock of the schedule's zone.
    nominal_local timestamp NOT NULL,
    due_at        timestamptz NOT NULL,
    status        text NOT NULL CHECK (status IN ('FIRED', 'LATE', 'BUFFERED', 'MISSED', 'REFUSED',
                  'SKIPPED_BY_OVERLAP', 'SKIPPED_BY_PAUSE', 'SKIPPED_BY_CALENDAR',
                  'SKIPPED_BY_DST', 'SKIPPED_BY_UNIQUE')),
    cause         text NOT NULL CHECK (cause IN ('rule', 'trigger', 'backfill')),
    version       integer NOT NULL,
    -- The job or payment that it became.
    kind          text CHECK (kind IN ('job', 'payment')),
    subject       uuid,
    code          text,
    notes         text[],
    created_at    timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (bucket, tenant_id, schedule_id, occurrence_id),
    CHECK ((status IN ('FIRED', 'LATE')) = (subject IS NOT NULL)),
    CHECK ((subject IS NULL) = (kind IS NULL)),
    CHECK (status <> 'REFUSED' OR code IS NOT NULL)
) PARTITION BY RANGE (occurrence_id);

CREATE TABLE calendar (
    tenant_id  integer NOT NULL,
    name       text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
    weekend    smallint[] NOT NULL,
    holidays   date[] NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock(),
    PRIMARY KEY (tenant_id, name)
);

-- What each calendar has said, and since when: the past is judged by what held then. The newest few
-- of each name are kept, also of one that is deleted.
CREATE TABLE calendar_version (
    tenant_id integer NOT NULL,
    name      text COLLATE "C" NOT NULL,
    since     timestamptz NOT NULL,
    weekend   smallint[] NOT NULL,
    holidays  date[] NOT NULL,
    PRIMARY KEY (tenant_id, name, since)
);

-- With which tz data the timers of all schedules were computed; one row.
CREATE TABLE schedule_tzdata (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    version    text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock()
);

SELECT table_guard('schedule', fact => false);
SELECT table_guard('occurrence', fact => false);
SELECT table_guard('calendar', fact => false);
SELECT table_guard('calendar_version', fact => false);
SELECT table_guard('schedule_version', fact => true);
GRANT SELECT ON schedule_tzdata TO postdate_reader;
GRANT SELECT, INSERT, UPDATE ON schedule_tzdata TO postdate_writer;

CREATE TRIGGER occurrence_final BEFORE UPDATE ON occurrence FOR EACH ROW
    WHEN (OLD.status IN ('FIRED', 'LATE')) EXECUTE FUNCTION occurrence_final();
-- An occurrence of the future that nothing was made of can be taken back, and no other row.
CREATE TRIGGER occurrence_kept BEFORE DELETE ON occurrence FOR EACH ROW
    WHEN (OLD.subject IS NOT NULL OR OLD.scheduled_for <= clock())
    EXECUTE FUNCTION occurrence_final();
