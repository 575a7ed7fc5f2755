-- What only `postdate bench` asks: the bare minimum to compare with, and sums over what was done.

-- name: bench_delete
-- The least that must happen to a claimed timer: gone, by its key and token.
DELETE FROM timer t USING unnest($2::uuid[], $3::bigint[]) AS done (subject, token)
 WHERE t.bucket = $1 AND t.subject = done.subject AND t.token = done.token

-- name: bench_fill
-- Timers due within a year from so many days on, in the buckets of one lane; ids rise as ours do.
INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
SELECT b.bucket, $2, $3, uuidv7(),
       clock() + $5::integer * interval '1 day' + n * (interval '1 year' / $4::integer)
  FROM unnest($1::smallint[]) AS b (bucket), generate_series(1, $4::integer) AS n

-- name: bench_indexes
-- How a table's indexes are made again; a primary key is a constraint.
SELECT i.indexrelid::regclass::text AS name, pg_get_indexdef(i.indexrelid) AS definition,
       c.conname AS constraint_name, pg_get_constraintdef(c.oid) AS constraint_definition
  FROM pg_index i
  LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.conrelid = i.indrelid
 WHERE i.indrelid = $1::text::regclass

-- name: bench_timer_bytes
SELECT pg_table_size('timer'), pg_indexes_size('timer')

-- name: bench_lateness
-- Milliseconds from due to claimed, of a tenant's ended jobs.
SELECT count(*)::integer AS jobs,
       percentile_cont(ARRAY[0.5, 0.95, 0.99, 1.0]) WITHIN GROUP (
           ORDER BY extract(epoch FROM started_at - due_at)::float8 * 1000) AS late
  FROM outcome WHERE tenant_id = $1

-- name: bench_wal
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint

-- name: bench_at_rest
SELECT (SELECT sum(pg_total_relation_size(coalesce(t.relid, name::regclass)))
          FROM unnest($1::text[]) AS name
          LEFT JOIN LATERAL pg_partition_tree(name::regclass) AS t ON t.isleaf)::bigint
       + pg_total_relation_size('idempotency')

-- name: bench_reload
SELECT pg_reload_conf()

-- name: bench_copy_schedule
-- Copies of one schedule, each due at the top of this hour plus $5 hours.
WITH place AS (
    SELECT * FROM unnest($3::smallint[], $4::uuid[]) AS p (bucket, schedule_id)
), versions AS (
    INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, policies,
                                  template, actor, template_by, persons)
    SELECT p.bucket, v.tenant_id, p.schedule_id, v.version, v.name, v.rule, v.policies, v.template,
           v.actor, v.template_by, v.persons
      FROM place p, schedule_version v WHERE v.tenant_id = $1 AND v.schedule_id = $2
), timers AS (
    INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
    SELECT p.bucket, $1, $6, p.schedule_id,
           date_trunc('hour', clock()) + $5::integer * interval '1 hour'
      FROM place p
)
INSERT INTO schedule (bucket, tenant_id, schedule_id, handled)
SELECT p.bucket, $1, p.schedule_id,
       date_trunc('hour', clock()) + $5::integer * interval '1 hour' - interval '1 second'
  FROM place p

-- name: bench_make_schedules
-- Schedules of different rules in ten zones: hourly, daily, weekly and monthly; of each five one
-- pays, of each four one has a jitter.
WITH made AS MATERIALIZED (
    SELECT (n % 64)::smallint AS bucket, uuidv7() AS schedule_id, n, n / 10 % 60 AS minute,
           n / 600 % 24 AS hour,
           (ARRAY['UTC', 'Europe/Berlin', 'Europe/London', 'America/New_York', 'Asia/Tokyo',
                  'Australia/Sydney', 'America/Santiago', 'Asia/Kolkata', 'America/Los_Angeles',
                  'Europe/Zurich'])[n % 10 + 1] AS timezone
      FROM generate_series(1, $2::integer) AS n),
versions AS (
    INSERT INTO schedule_version (bucket, tenant_id, schedule_id, version, name, rule, policies,
                                  template, actor, template_by, persons)
    SELECT bucket, $1, schedule_id, 1, '',
           jsonb_build_object('timezone', timezone, 'cron', concat_ws(' ', minute,
               CASE WHEN n % 7 = 0 THEN '*' ELSE hour::text END,
               CASE WHEN n % 7 > 4 THEN (n % 28 + 1)::text ELSE '*' END, '*',
               CASE n % 7 WHEN 3 THEN '1-5' WHEN 4 THEN (n % 5)::text ELSE '*' END)),
           jsonb_build_object('jitter_seconds', CASE n % 4 WHEN 0 THEN 300 ELSE 0 END),
           CASE WHEN n % 5 = 0 AND n % 7 > 0
                THEN '{"payment": {"from_account_id": "account-000000", "amount": 1,
                                   "to_account_id": "hot"}}'
                ELSE '{"job": {"destination": {"type": "worker"}, "lane": "bench"}}' END::json,
           'bench', 'bench', '{bench}'
      FROM made)
INSERT INTO schedule (bucket, tenant_id, schedule_id, handled)
SELECT bucket, $1, schedule_id, clock() FROM made

-- name: bench_fired
SELECT (SELECT count(*) FROM job WHERE tenant_id = $1)::integer,
       (SELECT count(*) FROM occurrence WHERE tenant_id = $1 AND subject IS NOT NULL)::integer

-- name: bench_bare_job_make
-- The least that a queue needs: what is due when, and what it carries.
CREATE TABLE bare_job (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at timestamptz NOT NULL,
    claimed_at timestamptz,
    payload text NOT NULL);
CREATE INDEX bare_job_due ON bare_job (due_at) WHERE claimed_at IS NULL

-- name: bench_bare_job_fill
INSERT INTO bare_job (due_at, payload)
SELECT now() - interval '1 minute', '{"order":4711,"to":"someone@example.com"}'
  FROM generate_series(1, $1::integer)

-- name: bench_bare_job_claim
-- One connection has nobody to go around: not even rows are locked before the update does it.
UPDATE bare_job SET claimed_at = now()
 WHERE job_id = ANY (ARRAY(
       SELECT job_id FROM bare_job WHERE claimed_at IS NULL AND due_at <= now()
        ORDER BY due_at LIMIT $1))
RETURNING job_id, payload

-- name: bench_bare_job_delete
DELETE FROM bare_job WHERE job_id = ANY ($1::bigint[])

-- name: bench_bare_ledger_make_account
CREATE TABLE bare_account (account_id integer PRIMARY KEY, balance bigint NOT NULL)
  WITH (fillfactor = 70)

-- name: bench_bare_ledger_make_entry
CREATE TABLE bare_entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id integer NOT NULL,
    amount bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT now())

-- name: bench_bare_ledger_fill
INSERT INTO bare_account SELECT n, 1000000000 FROM generate_series(0, $1::integer - 1) AS n

-- name: bench_bare_ledger_move
WITH moved AS (
    SELECT account_id, amount FROM unnest($1::integer[], $2::integer[]) AS t (payer, payee),
           LATERAL (VALUES (payer, -1::bigint), (payee, 1::bigint)) AS side (account_id, amount)),
written AS (
    INSERT INTO bare_entry (account_id, amount) SELECT account_id, amount FROM moved)
UPDATE bare_account a SET balance = a.balance + changed.amount
  FROM (SELECT account_id, sum(amount) AS amount FROM moved GROUP BY account_id) AS changed
 WHERE a.account_id = changed.account_id

-- name: bench_bare_ledger_count
SELECT count(*) FROM bare_entry
