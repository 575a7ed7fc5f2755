-- The ledger: accounts, the payments that will move money, the transfers that moved it.

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
    -- What its amounts are counted in; NULL is the tenant's one currency, whatever that is. Given
    -- when the account is made, and never changed: money is only paid within one currency.
    currency   text COLLATE "C" CHECK (currency ~ '^[A-Z]{3}$'),
    PRIMARY KEY (bucket, tenant_id, account_id),
    CONSTRAINT account_covered CHECK (floor IS NULL OR balance - held >= floor),
    CONSTRAINT account_closed_empty CHECK (closed_at IS NULL OR (balance = 0 AND held = 0))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
        -- Payments change balances all day long, and no plan rests on them.
        autovacuum_analyze_scale_factor = 5);
-- For the proof that no payment changes the currency; none of its columns ever changes.
CREATE INDEX account_currency ON account (tenant_id, account_id) WHERE currency IS NOT NULL;

CREATE TABLE payment (
    bucket       smallint NOT NULL,
    -- The payee's, so that SQL alone finds both accounts; alignment would leave its place empty.
    to_bucket    smallint NOT NULL CHECK (to_bucket BETWEEN 0 AND 63),
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
    -- Who asked for it, and the hash of the key: the row of that key is proved by it.
    actor        text,
    idempotency_key uuid,
    -- The payment that this one pays back, in whole or in part. All refunds of a payment are paid
    -- by its payee, so that they lie in one bucket and are counted under the lock of one account.
    refund_of    uuid,
    PRIMARY KEY (bucket, tenant_id, payment_id),
    CHECK (from_account <> to_account),
    CHECK (refund_of IS NULL OR hold),
    CHECK (retry_until IS NULL OR NOT hold)
) PARTITION BY RANGE (payment_id);
-- New payments, as an array for each column: the one list of what a call gives. PAYMENT_COLUMNS in
-- payment/store/payment.py has the same, in the same order, and a test compares them; so do
-- hold_columns and what an accepted payment holds of its payer.
CREATE TYPE payment_columns AS (
    bucket          smallint[],
    to_bucket       smallint[],
    tenant_id       integer[],
    payment_id      uuid[],
    from_account    text[],
    to_account      text[],
    amount          bigint[],
    due_at          timestamptz[],
    hold            boolean[],
    retry_until     timestamptz[],
    description     text[],
    schedule_id     uuid[],
    traceparent     text[],
    on_broken       text[],
    actor           text[],
    idempotency_key uuid[],
    refund_of       uuid[]
);
CREATE TYPE hold_columns AS (
    bucket     smallint[],
    tenant_id  integer[],
    account_id text[],
    amount     bigint[],
    floor      bigint[],
    max_amount bigint[]
);
CREATE INDEX payment_from ON payment (bucket, tenant_id, from_account, payment_id);
CREATE INDEX payment_to ON payment (bucket, tenant_id, to_account, payment_id);
CREATE INDEX payment_schedule ON payment (bucket, schedule_id, payment_id)
    WHERE schedule_id IS NOT NULL;
CREATE INDEX payment_refund ON payment (bucket, tenant_id, refund_of) WHERE refund_of IS NOT NULL;

-- Payments above a tenant's threshold wait for a second person: one row for each. Its timer lies in
-- a lane of its own, which no settler reads, until it is decided. That no person approves an own
-- request holds for every writer: `persons` are the people who may stand behind a key or token,
-- and none of them is on both sides.
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

-- A payment with its currency, which is that of its payer and never changes, and its approval, if
-- it needs one. The columns are listed here and nowhere else; a reader sees through it what it may
-- see of the tables.
CREATE VIEW payment_view WITH (security_invoker = true) AS
SELECT p.bucket, p.tenant_id, p.payment_id, p.from_account, p.to_account, p.amount, p.due_at,
       p.hold, p.retry_until, p.created_at, p.description, p.schedule_id, p.on_broken,
       p.refund_of, a.currency, v.requested_by, v.requested_at, v.expires_at, v.decision,
       v.decided_by, v.decided_at, v.note
  FROM payment p
  LEFT JOIN account a ON a.bucket = p.bucket AND a.tenant_id = p.tenant_id
       AND a.account_id = p.from_account
  LEFT JOIN payment_approval v ON v.bucket = p.bucket AND v.tenant_id = p.tenant_id
       AND v.payment_id = p.payment_id;
GRANT SELECT ON payment_view TO postdate_reader, postdate_writer;

-- Money that moved from one account to another, and where both stand after it. There is one amount,
-- so that both sides agree, no matter who writes. It lies with its payer: `bucket` is the payer's.
-- transfer_id is a UUIDv7 made when the money moves.
CREATE TABLE transfer (
    bucket       smallint NOT NULL,
    to_bucket    smallint NOT NULL CHECK (to_bucket BETWEEN 0 AND 63),
    tenant_id    integer NOT NULL,
    transfer_id  uuid NOT NULL,
    amount       bigint NOT NULL CHECK (amount > 0),
    from_balance bigint NOT NULL,
    from_version bigint NOT NULL CHECK (from_version > 0),
    to_balance   bigint NOT NULL,
    to_version   bigint NOT NULL CHECK (to_version > 0),
    created_at   timestamptz NOT NULL DEFAULT clock(),
    from_account text COLLATE "C" NOT NULL,
    to_account   text COLLATE "C" NOT NULL,
    -- The payment that caused it; an adjustment has its reason instead.
    payment_id   uuid,
    reason       text,
    PRIMARY KEY (bucket, tenant_id, from_account, from_version, transfer_id),
    CHECK (from_account <> to_account),
    CHECK ((payment_id IS NULL) <> (reason IS NULL))
) PARTITION BY RANGE (transfer_id);
CREATE INDEX transfer_to ON transfer (to_bucket, tenant_id, to_account, to_version);

-- The two sides of each transfer, as the statements of its accounts have them: of each the bucket
-- and version of its account, and a debit below zero. Nothing may stand in WHERE, or the planner
-- would no longer look up a side by its key.
CREATE VIEW entry WITH (security_invoker = true) AS
SELECT bucket, tenant_id, transfer_id, -amount AS amount, from_balance AS balance,
       from_version AS version, created_at,
       CASE WHEN payment_id IS NULL THEN 'ADJUSTMENT' ELSE 'PAYMENT' END AS type,
       from_account AS account_id, payment_id, reason
  FROM transfer
 UNION ALL
SELECT to_bucket, tenant_id, transfer_id, amount, to_balance, to_version, created_at,
       CASE WHEN payment_id IS NULL THEN 'ADJUSTMENT' ELSE 'PAYMENT' END,
       to_account, payment_id, reason
  FROM transfer;
GRANT SELECT ON entry TO postdate_reader, postdate_writer;

-- An account that was put right: balance, held and version as its entries and open payments say.
-- `jumps` are the versions at which a running balance does not follow from the one before, and by
-- how much: they are explained by this row and by nothing else.
CREATE TABLE account_repair (
    bucket         smallint NOT NULL,
    tenant_id      integer NOT NULL,
    account_id     text COLLATE "C" NOT NULL,
    repaired_at    timestamptz NOT NULL DEFAULT clock(),
    version        bigint NOT NULL,
    balance        bigint NOT NULL,
    held           bigint NOT NULL,
    version_before bigint NOT NULL,
    balance_before bigint NOT NULL,
    held_before    bigint NOT NULL,
    jumps          jsonb NOT NULL,
    requested_by   text NOT NULL,
    approved_by    text NOT NULL CHECK (approved_by <> requested_by),
    reason         text NOT NULL,
    PRIMARY KEY (bucket, tenant_id, account_id, repaired_at)
);

-- How far the entries of each account are proved.
CREATE TABLE account_proof (
    bucket     smallint NOT NULL,
    tenant_id  integer NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    balance    bigint NOT NULL,
    PRIMARY KEY (bucket, tenant_id, account_id)
) WITH (fillfactor = 70);

SELECT table_guard('account', fact => false);
SELECT table_guard('account_proof', fact => false);
SELECT table_guard('account_repair', fact => true);
SELECT table_guard('payment_approval', fact => false);
SELECT table_guard('payment', fact => true);
SELECT table_guard('transfer', fact => true);
