-- The ledger: accounts, the payments that will move money, the entries that moved it.

-- No foreign key points here and no column that changes is indexed, so that an update stays HOT;
-- the free space on each page is for exactly that.
CREATE TABLE account (
    bucket     smallint NOT NULL CHECK (bucket BETWEEN 0 AND 63),
    tenant_id  integer NOT NULL,
    account_id text COLLATE "C" NOT NULL CHECK (length(account_id) BETWEEN 1 AND 64),
    balance    bigint NOT NULL DEFAULT 0,
    held       bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    version    bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    -- The least that must stay available; NULL (the issuer) may go below zero without end.
    floor      bigint DEFAULT 0,
    max_amount bigint CHECK (max_amount > 0),
    frozen_at  timestamptz,
    closed_at  timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock(),
    -- When anything about it last changed: its money, what is held, or its terms.
    updated_at timestamptz NOT NULL DEFAULT clock(),
    note       text,
    PRIMARY KEY (bucket, tenant_id, account_id),
    CONSTRAINT account_covered CHECK (floor IS NULL OR balance - held >= floor),
    CONSTRAINT account_closed_empty CHECK (closed_at IS NULL OR (balance = 0 AND held = 0))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE payment (
    bucket       smallint NOT NULL,
    tenant_id    integer NOT NULL,
    payment_id   uuid NOT NULL,
    from_account text COLLATE "C" NOT NULL,
    to_account   text COLLATE "C" NOT NULL,
    amount       bigint NOT NULL CHECK (amount > 0),
    due_at       timestamptz NOT NULL,
    -- True: the amount was reserved when this row was written. False: checked at the due second.
    hold         boolean NOT NULL,
    -- With hold = false: keep trying until then when the money is not there.
    retry_until  timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock(),
    description  text,
    schedule_id  uuid,
    traceparent  text,
    -- What becomes of the hold when settling breaks for good; NULL leaves it to the setting.
    on_broken    text CHECK (on_broken IN ('hold', 'release')),
    PRIMARY KEY (bucket, tenant_id, payment_id),
    CHECK (from_account <> to_account),
    CHECK (retry_until IS NULL OR NOT hold)
) PARTITION BY RANGE (payment_id);
CREATE INDEX payment_from ON payment (bucket, tenant_id, from_account, payment_id);
CREATE INDEX payment_to ON payment (bucket, tenant_id, to_account, payment_id);
CREATE INDEX payment_schedule ON payment (bucket, schedule_id, payment_id)
    WHERE schedule_id IS NOT NULL;

-- One leg of a transfer. transfer_id is a UUIDv7 made when the money moves.
CREATE TABLE entry (
    bucket      smallint NOT NULL,
    tenant_id   integer NOT NULL,
    transfer_id uuid NOT NULL,
    amount      bigint NOT NULL CHECK (amount <> 0),
    balance     bigint NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    created_at  timestamptz NOT NULL DEFAULT clock(),
    type        text NOT NULL CHECK (type IN ('PAYMENT', 'ADJUSTMENT', 'REFUND')),
    account_id  text COLLATE "C" NOT NULL,
    -- The payment that caused it; an adjustment has its reason instead.
    payment_id  uuid,
    reason      text,
    PRIMARY KEY (bucket, tenant_id, account_id, version, transfer_id),
    CHECK ((type = 'PAYMENT') = (payment_id IS NOT NULL)),
    CHECK (type <> 'ADJUSTMENT' OR reason IS NOT NULL)
) PARTITION BY RANGE (transfer_id);

SELECT table_guard('account', fact => false);
SELECT table_guard(t, fact => true) FROM unnest('{payment,entry}'::regclass[]) AS t;

-- Money is neither made nor lost, no matter who writes: the legs that one statement inserts for a
-- transfer sum to zero.
CREATE FUNCTION entry_balanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    culprit uuid;
BEGIN
    SELECT transfer_id INTO culprit FROM inserted GROUP BY transfer_id HAVING sum(amount) <> 0
        LIMIT 1;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION 'the entries of transfer % do not sum to zero', culprit
            USING ERRCODE = 'PD002';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER entry_balanced AFTER INSERT ON entry
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION entry_balanced();

-- Lock accounts in one order, (bucket, tenant_id, account_id), bucket by bucket, in one round trip.
-- The arguments come sorted. A statement over several buckets would be refused by a sharded
-- PostgreSQL; sixty-four round trips would be most of a small batch's time. What a stranger holds
-- is not waited for for long: see account_locked.
CREATE FUNCTION account_lock(buckets smallint[], tenants integer[], accounts text[])
    RETURNS SETOF account LANGUAGE plpgsql SET search_path FROM CURRENT
    SET lock_timeout = '500ms' AS $$
DECLARE
    first integer := 1;
    last integer;
BEGIN
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        RETURN QUERY SELECT a.* FROM account a
            JOIN unnest(tenants[first:last], accounts[first:last]) AS wanted (tenant_id, account_id)
            USING (tenant_id, account_id)
            WHERE a.bucket = buckets[first]
            ORDER BY a.tenant_id, a.account_id FOR NO KEY UPDATE OF a;
        first := last + 1;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION account_lock FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_lock TO postdate_writer;

-- Lock due payments' timers bucket by bucket, in one round trip. The arguments come sorted by
-- bucket. What somebody else holds (another settler, a cancel) is skipped: none waits for a timer.
CREATE FUNCTION timer_lock(lane integer, buckets smallint[], subjects uuid[])
    RETURNS SETOF timer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    first integer := 1;
    last integer;
BEGIN
    WHILE first <= cardinality(buckets) LOOP
        last := first;
        WHILE last < cardinality(buckets) AND buckets[last + 1] = buckets[first] LOOP
            last := last + 1;
        END LOOP;
        RETURN QUERY SELECT t.* FROM timer t
            JOIN unnest(subjects[first:last]) AS wanted (subject) USING (subject)
            WHERE t.bucket = buckets[first] AND t.lane_id = lane AND t.due_at <= clock()
            FOR UPDATE OF t SKIP LOCKED;
        first := last + 1;
    END LOOP;
END $$;
REVOKE EXECUTE ON FUNCTION timer_lock FROM PUBLIC;
GRANT EXECUTE ON FUNCTION timer_lock TO postdate_writer;

-- What a decision about payments needs, in one round trip: the accounts to change, locked in their
-- order, then others as they are, and the time. An account that does not exist gives no row; the
-- row with the time is always there.
CREATE FUNCTION account_gather(
    lock_buckets smallint[], lock_tenants integer[], lock_accounts text[],
    look_buckets smallint[], look_tenants integer[], look_accounts text[]
) RETURNS TABLE (
    at timestamptz, bucket smallint, tenant_id integer, account_id text, balance bigint,
    held bigint, version bigint, floor bigint, max_amount bigint, frozen_at timestamptz,
    closed_at timestamptz
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at
        FROM account_lock(lock_buckets, lock_tenants, lock_accounts) AS a;
    RETURN QUERY SELECT NULL::timestamptz, a.bucket, a.tenant_id, a.account_id, a.balance, a.held,
        a.version, a.floor, a.max_amount, a.frozen_at, a.closed_at
        FROM unnest(look_buckets, look_tenants, look_accounts)
             AS wanted (bucket, tenant_id, account_id)
        JOIN account a USING (bucket, tenant_id, account_id);
    at := clock();
    RETURN NEXT;
END $$;
REVOKE EXECUTE ON FUNCTION account_gather FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_gather TO postdate_writer;

-- Accept payments: the holds of locked accounts, and each payment with its timer and its first
-- event, in one round trip and with every value sent once. Plain statements of one table each,
-- for a sharded PostgreSQL.
CREATE FUNCTION payment_accept(
    buckets smallint[], tenants integer[], ids uuid[], payers text[], payees text[],
    amounts bigint[], dues timestamptz[], holds boolean[], retries timestamptz[],
    descriptions text[], schedules uuid[], traces text[], actors text[], events uuid[],
    lane integer, holder_buckets smallint[], holder_tenants integer[], holders text[],
    helds bigint[]
) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE account a SET held = new.held
      FROM unnest(holder_buckets, holder_tenants, holders, helds)
           AS new (bucket, tenant_id, account_id, held)
     WHERE a.bucket = new.bucket AND a.tenant_id = new.tenant_id AND a.account_id = new.account_id;
    INSERT INTO payment (bucket, tenant_id, payment_id, from_account, to_account, amount, due_at,
                         hold, retry_until, description, schedule_id, traceparent)
    SELECT * FROM unnest(buckets, tenants, ids, payers, payees, amounts, dues, holds, retries,
                         descriptions, schedules, traces);
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, tenant_id, lane, subject, due_at
      FROM unnest(buckets, tenants, ids, dues) AS new (bucket, tenant_id, subject, due_at);
    INSERT INTO event (bucket, tenant_id, subject, event_id, type, actor, data)
    SELECT bucket, tenant_id, subject, event_id, 'payment.scheduled', actor,
           jsonb_build_object('from_account_id', payer, 'to_account_id', payee, 'amount', amount,
                              'scheduled_time', due_at)
      FROM unnest(buckets, tenants, ids, events, actors, payers, payees, amounts, dues)
           AS new (bucket, tenant_id, subject, event_id, actor, payer, payee, amount, due_at);
END $$;
REVOKE EXECUTE ON FUNCTION payment_accept FROM PUBLIC;
GRANT EXECUTE ON FUNCTION payment_accept TO postdate_writer;

-- What of the history has been detached, and from where on it is whole. Belongs to no tenant.
CREATE TABLE history (
    partition   text PRIMARY KEY,
    parent      text NOT NULL,
    from_id     uuid NOT NULL,
    to_id       uuid NOT NULL,
    detached_at timestamptz NOT NULL DEFAULT clock(),
    dropped_at  timestamptz
);
GRANT SELECT ON history TO postdate_reader, postdate_writer;

-- Every weekly partition that is attached, the oldest first.
CREATE VIEW history_partition AS
    SELECT c.oid, c.relname::text AS partition, p.relname::text AS parent,
           uuid_floor(monday) AS from_id, uuid_floor(monday + interval '7 days') AS to_id,
           monday, monday + interval '7 days' AS until
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_class p ON p.oid = i.inhparent AND p.relkind = 'p'
     CROSS JOIN LATERAL (
           SELECT to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp AT TIME ZONE 'UTC'
                  AS monday) AS week
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relname ~ '_\d{8}$'
     ORDER BY c.relname;
GRANT SELECT ON history_partition TO postdate_writer;

-- Detach one partition. Refused, whoever asks: what is younger than two weeks, and what holds
-- anything that still has a timer. Money (payment, entry, and outcome, which ends payments) only
-- leaves when it is meant by name.
CREATE FUNCTION history_detach(child text, money boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part history_partition;
BEGIN
    SELECT * INTO part FROM history_partition WHERE partition = child;
    IF part IS NULL THEN
        RAISE EXCEPTION 'there is no attached partition %', child USING ERRCODE = 'PD003';
    ELSIF part.until > clock() - interval '14 days' THEN
        RAISE EXCEPTION '% is younger than two weeks', child USING ERRCODE = 'PD003';
    ELSIF part.parent IN ('payment', 'entry', 'outcome') AND NOT money THEN
        RAISE EXCEPTION '% holds money: say so to detach it', child USING ERRCODE = 'PD003';
    ELSIF part.parent <> 'entry' AND EXISTS (
            SELECT FROM generate_series(0, 63) AS place (bucket)
              JOIN timer t ON t.bucket = place.bucket
               AND t.subject >= part.from_id AND t.subject < part.to_id) THEN
        RAISE EXCEPTION '% holds what still has a timer', child USING ERRCODE = 'PD003';
    END IF;
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', part.parent, child);
    INSERT INTO history (partition, parent, from_id, to_id)
        VALUES (child, part.parent, part.from_id, part.to_id);
END $$;

-- Drop a partition that was detached before.
CREATE FUNCTION history_drop(child text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE history SET dropped_at = clock() WHERE partition = child AND dropped_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not detached', child USING ERRCODE = 'PD003';
    END IF;
    EXECUTE format('DROP TABLE %I', child);
END $$;
REVOKE EXECUTE ON FUNCTION history_detach, history_drop FROM PUBLIC;
GRANT EXECUTE ON FUNCTION history_detach, history_drop TO postdate_writer;
