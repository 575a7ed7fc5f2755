-- What only `postdate bench payments` asks: ledgers made by the set, and what became of them.

-- name: bench_payment_open
-- Accounts with money, and the transfers that brought it from the issuer, so that the ledger can be
-- proved. Ids are built here as `model.ids` builds them: milliseconds, bucket, random bits.
WITH opened AS (
    INSERT INTO account (bucket, tenant_id, account_id, balance, version)
    SELECT bucket, $1, account_id, $5, 1
      FROM unnest($2::smallint[], $3::text[]) AS new (bucket, account_id)
    RETURNING bucket, account_id),
issuer AS (
    INSERT INTO account (bucket, tenant_id, account_id, balance, version, floor)
    SELECT $4, $1, $6, -$5::bigint * count(*), count(*), NULL FROM opened
    RETURNING bucket, account_id),
moved AS (
    SELECT bucket, account_id, row_number() OVER () AS number,
           encode(substring(int8send((extract(epoch FROM clock()) * 1000)::bigint) FROM 3)
                  || int2send((28672 + bucket)::smallint)
                  || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid AS transfer_id
      FROM opened)
INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_account, from_balance,
                      from_version, to_account, to_balance, to_version, reason)
SELECT issuer.bucket, moved.bucket, $1, transfer_id, $5, issuer.account_id, -$5::bigint * number,
       number, moved.account_id, $5, 1, 'bench'
  FROM moved, issuer

-- name: bench_payment_fill
-- Open payments with their timers, waiting to be sealed, due one after the other. The shape ($6):
-- spread, any account to any other; hot, any account to the first one; payer, one account to any
-- other; zipf, the n-th account with a share of about 1/n; chain, every payee is the next payer;
-- short, as spread, but each tenth payer lacks the amount. Chain and short are not held.
WITH place AS (
    SELECT * FROM unnest($2::smallint[], $3::text[]) WITH ORDINALITY
                  AS known (bucket, account_id, number)),
pick AS MATERIALIZED (
    SELECT n, 2 + payer AS payer,
           CASE $6::text
                WHEN 'hot' THEN 1
                WHEN 'chain' THEN 2 + (payer + 1) % others
                WHEN 'zipf' THEN 2 + (payer + floor(others ^ random())::bigint) % others
                ELSE 2 + (payer + 1 + floor(random() * (others - 1))::bigint) % others
           END AS payee,
           CASE WHEN $6 = 'short' AND n % 10 = 0 THEN $9::bigint ELSE 1 END AS amount
      FROM (SELECT n, others,
                   CASE $6::text
                        WHEN 'chain' THEN n % others
                        WHEN 'zipf' THEN floor(others ^ random())::bigint - 1
                        WHEN 'payer' THEN 0
                        ELSE floor(random() * others)::bigint END AS payer
              FROM generate_series(1, $4::integer) AS n,
                   (SELECT cardinality($2)::bigint - 1 AS others) AS size) AS thrown
     WHERE others > 1),
made AS (
    INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account,
                         amount, due_at, hold, actor)
    SELECT payer.bucket, payee.bucket, $1,
           encode(substring(int8send((extract(epoch FROM clock()) * 1000)::bigint) FROM 3)
                  || int2send((28672 + payer.bucket)::smallint)
                  || substring(uuid_send(gen_random_uuid()) FROM 9), 'hex')::uuid,
           payer.account_id, payee.account_id, pick.amount, $5::timestamptz + n * $7::interval,
           $6::text NOT IN ('chain', 'short'), 'bench'
      FROM pick
      JOIN place AS payer ON payer.number = pick.payer
      JOIN place AS payee ON payee.number = pick.payee
    RETURNING bucket, tenant_id, payment_id, from_account, amount, due_at, hold,
              payment_digest(ROW(payment.*)::payment) AS digest),
timers AS (
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT bucket, tenant_id, $8, payment_id, due_at FROM made),
told AS (
    INSERT INTO outbox (bucket, tenant_id, types, subjects, digests)
    SELECT bucket, tenant_id, '{payment.scheduled}', array_agg(payment_id ORDER BY payment_id),
           string_agg(digest, '' ORDER BY payment_id)
      FROM made GROUP BY bucket, tenant_id),
held AS (
    SELECT bucket, from_account, sum(amount) AS amount FROM made WHERE hold
     GROUP BY bucket, from_account)
UPDATE account a SET held = a.held + held.amount FROM held
 WHERE a.bucket = held.bucket AND a.tenant_id = $1 AND a.account_id = held.from_account

-- name: bench_payment_due
-- A tenant's due payments in the order of settling, as the lock of a settler gives them.
SELECT t.bucket, t.tenant_id, t.subject, t.due_at, t.token, clock() AS at, p.from_account,
       p.to_account, p.amount, p.hold, p.retry_until, p.traceparent
  FROM timer t
  JOIN payment p ON p.bucket = t.bucket AND p.tenant_id = t.tenant_id AND p.payment_id = t.subject
 WHERE t.lane_id = $2 AND t.tenant_id = $1 AND t.due_at <= clock()
 ORDER BY t.due_at, t.subject

-- name: bench_payment_sample
-- Some payments of a tenant.
SELECT payment_id FROM payment WHERE tenant_id = $1 ORDER BY random() LIMIT $2

-- name: bench_payment_lateness
-- How many payments ended well, how many of them early, and milliseconds from due to written.
SELECT count(*)::integer AS ended,
       (count(*) FILTER (WHERE started_at < due_at))::integer AS early,
       percentile_cont(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (
           ORDER BY extract(epoch FROM finished_at - due_at)::float8 * 1000) AS late
  FROM outcome WHERE tenant_id = $1 AND status = 'COMPLETED'

-- name: bench_payment_count
SELECT count(*)::integer FROM payment WHERE tenant_id = $1

-- name: bench_payment_deadlocks
SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()

-- name: bench_payment_naive_make
CREATE TABLE naive_account (account_id text PRIMARY KEY, balance bigint NOT NULL)
  WITH (fillfactor = 70)

-- name: bench_payment_naive_open
INSERT INTO naive_account SELECT account_id, $2 FROM unnest($1::text[]) AS account_id

-- name: bench_payment_naive_add
UPDATE naive_account SET balance = balance + $2 WHERE account_id = $1

-- name: bench_payment_pgledger_open
SELECT id FROM unnest($1::text[]) AS name, pgledger_create_account(name, 'USD')

-- name: bench_payment_pgledger_move
SELECT id FROM pgledger_create_transfer($1, $2, 1)

-- name: bench_payment_pgledger_batch
SELECT id FROM pgledger_create_transfers((
    SELECT array_agg(ROW(payer, payee, 1)::transfer_request)
      FROM unnest($1::text[], $2::text[]) AS wanted (payer, payee)))
