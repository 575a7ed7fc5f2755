-- What only `postdate chaos` asks: everything that is left after a run, and two ways to disturb it.

-- name: chaos_tenants
SELECT tenant_id, name FROM tenant ORDER BY tenant_id

-- name: chaos_accounts
SELECT tenant_id, account_id, balance, held, version, floor FROM account

-- name: chaos_transfers
SELECT tenant_id, transfer_id, payment_id, amount, from_account, from_balance, from_version,
       to_account, to_balance, to_version
  FROM transfer

-- name: chaos_payments
SELECT tenant_id, payment_id, from_account, to_account, amount, hold, due_at, schedule_id
  FROM payment

-- name: chaos_jobs
SELECT tenant_id, job_id, due_at, effective_at, schedule_id, destination ->> 'type' AS type FROM job

-- name: chaos_outcomes
SELECT tenant_id, subject, status, attempt, due_at, started_at, finished_at, transfer_id
  FROM outcome

-- name: chaos_attempts
SELECT tenant_id, subject, attempt, status, due_at, started_at, finished_at FROM attempt

-- name: chaos_timers
SELECT tenant_id, lane_id, subject, due_at, claimed_at IS NOT NULL AS claimed FROM timer

-- name: chaos_occurrences
SELECT tenant_id, schedule_id, scheduled_for, status, cause, subject FROM occurrence

-- name: chaos_open
-- How many payments and jobs of each tenant have not ended. Lanes 1 and 2 are schedules and
-- deliveries of events.
SELECT name, count(*)::integer AS open
  FROM timer JOIN tenant USING (tenant_id) WHERE lane_id NOT IN (1, 2) GROUP BY name

-- name: chaos_links
SELECT coalesce(sum(position), 0)::bigint FROM chain

-- name: chaos_end_sessions
SELECT count(pg_terminate_backend(pid))::integer FROM (
    SELECT pid FROM pg_stat_activity
     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
     ORDER BY random() LIMIT $1) AS chosen

-- name: chaos_hold_account
SELECT count(*)::integer FROM (
    SELECT FROM account WHERE bucket = $2 LIMIT $1 FOR UPDATE SKIP LOCKED) AS held

-- name: chaos_hold_timer
SELECT count(*)::integer FROM (
    SELECT FROM timer WHERE bucket = $2 LIMIT $1 FOR UPDATE SKIP LOCKED) AS held
